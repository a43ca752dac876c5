//! `--password-file` and `--password-command`: the password of each new connection.

use std::io::{self, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::app::args::program::Program;
use crate::app::args::sources::{PasswordFrom, Resolved, Store};
use crate::app::exit::Failure;
use crate::app::run::runtime;
use crate::app::systemd;
use crate::engine::private;
use crate::engine::redis::Password;

/// Longer ones are no passwords; tokens of cloud services have a kilobyte or two.
const BYTES_MAX: u64 = 64 * 1024;
/// How long a command may take: some ask a service over the network.
const COMMAND_MAX: Duration = Duration::from_secs(30);
/// How much of what a command says is repeated.
const SAID_MAX: usize = 200;

pub(in crate::app) fn provider(from: &PasswordFrom) -> Password {
    match from.clone() {
        PasswordFrom::File(path) => Password::new(move || {
            let read = read(&path).map_err(|error| named("--password-file", &error));
            async move { read }
        }),
        PasswordFrom::Command(program) => Password::new(move || {
            let program = program.clone();
            async move { run(&program).await.map_err(|error| named("--password-command", &error)) }
        }),
    }
}

/// A typing error should not wait for the first connection.
pub(in crate::app) fn check(resolved: &Resolved) -> Result<(), Failure> {
    let wrong = match &resolved.password {
        Some(PasswordFrom::File(path)) => read(path)
            .err()
            .map(|error| named(&format!("--password-file: {}", path.display()), &error).to_string()),
        Some(PasswordFrom::Command(program)) => program.find().err().map(|why| format!("--password-command: {why}")),
        None => None,
    };
    wrong.map_or(Ok(()), |line| Err(Failure::usage(line)))
}

/// The same store with the password of now, for commands that hand it on to other processes.
pub(in crate::app) fn fixed(resolved: &Resolved) -> Result<Store, Failure> {
    let (Some(from), Store::Redis(place)) = (&resolved.password, &resolved.store) else {
        return Ok(resolved.store.clone());
    };
    let asked = runtime()?.block_on(provider(from).ask(COMMAND_MAX));
    let password = asked.map_err(|error| Failure::failed(error.to_string()))?;
    let mut place = place.clone();
    let settings = place.info.redis_settings().clone().set_password(password);
    place.info = place.info.set_redis_settings(settings);
    Ok(Store::Redis(place))
}

fn named(flag: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{flag}: {error}"))
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    private::open_secret(path)?
        .take(BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    checked(&text)
}

/// What it prints. It inherits the environment: it needs the credentials of its service.
async fn run(program: &Program) -> io::Result<String> {
    let mut command = program.command();
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    for name in systemd::VARIABLES {
        command.env_remove(name);
    }
    let output = tokio::time::timeout(COMMAND_MAX, command.output()).await;
    let output =
        output.map_err(|_| io::Error::other(format!("{program} took longer than {} s", COMMAND_MAX.as_secs())))??;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it said nothing");
        let line: String = line
            .chars()
            .filter(|letter| !letter.is_control())
            .take(SAID_MAX)
            .collect();
        return Err(io::Error::other(format!("{program}: {}: {line}", output.status)));
    }
    checked(&String::from_utf8(output.stdout).map_err(io::Error::other)?)
}

/// Without the line's end.
fn checked(text: &str) -> io::Result<String> {
    let password = text.trim_end_matches(['\n', '\r']);
    if password.is_empty() || password.contains('\n') || password.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("must give one line with the password"));
    }
    Ok(password.to_string())
}
