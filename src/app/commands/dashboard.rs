//! `dashboard`: serves the page until it is told to stop. `start --dashboard` does the same beside a copy.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::start;
use crate::app::args::Dashboard as Flags;
use crate::app::args::sources::Resolved;
use crate::app::args::token::{Token, Tokens};
use crate::app::dashboard::{Bound, Options, Others, acceptor, bind};
use crate::app::exit::Failure;
use crate::app::health;
use crate::app::on_engine::Opener;
use crate::app::output::log::Log;
use crate::app::queues::find;
use crate::engine::{Engine, private};
use crate::node::shutdown;

const TOKEN_FILE_BYTES_MAX: u64 = 4096;
/// How long to look for queues.
const FIND_TIME: Duration = Duration::from_secs(2);

pub(super) async fn run<E: Engine>(
    engine: Arc<E>,
    resolved: &Resolved,
    flags: &Flags,
    log: Arc<Log>,
    others: Option<Opener<E>>,
) -> Result<(), Failure> {
    let bound = open("--listen", flags.listen, resolved, &log)?;
    engine.check().await?;
    let (stopper, shutdown) = shutdown::channel();
    start::stop_on_signal(stopper)?;
    log.say(false, "dashboard", &[("url", &bound.url)]);
    if let Err(error) = health::listen(|| "serves the dashboard".into()) {
        log.note(&format!("healthcheck will not find this process: {error}"));
    }
    let settings = resolved.settings.clone();
    let address = resolved.address.clone();
    let others = others.filter(|_| flags.all_queues).map(|open| {
        let finding = resolved.clone();
        let find = Box::new(move || find(&finding, FIND_TIME));
        Others { find, open }
    });
    bound.serve(engine, settings, address, log, shutdown, others).await;
    Ok(())
}

/// Takes the place. `flag` is the one that named it.
pub(super) fn open(flag: &str, listen: SocketAddr, resolved: &Resolved, log: &Log) -> Result<Bound, Failure> {
    let options = options(resolved)?;
    if !listen.ip().to_canonical().is_loopback() {
        if options.tokens.is_empty() {
            return Err(Failure::usage(format!(
                "{flag} {listen} can be reached from other machines, which needs a token: give --token-file FILE or \
                 QUEENRIGHT_TOKEN (make one with: head -c 24 /dev/urandom | base64)"
            )));
        }
        if options.tls.is_none() && !options.behind_tls {
            log.note("the dashboard is served without TLS: give --tls-cert and --tls-key, or have a proxy do it and say --behind-tls");
        }
    }
    if !options.hosts.is_empty() && options.tokens.is_empty() {
        return Err(Failure::usage(
            "--allow-host means that others reach it through a proxy, which needs a token: give --token-file FILE or \
             QUEENRIGHT_TOKEN (make one with: head -c 24 /dev/urandom | base64)",
        ));
    }
    bind(listen, options).map_err(|why| Failure::failed(format!("{flag}: {why}")))
}

/// The tokens that are asked for: one in a file counts before one in a variable.
pub(super) fn tokens(resolved: &Resolved) -> Result<Tokens, Failure> {
    let mut tokens = resolved.tokens.clone();
    for (right, path) in &resolved.serving.token_files {
        let mut text = String::new();
        let read = private::open_secret(path)
            .and_then(|file| file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text))
            .map_err(|error| error.to_string())
            .and_then(|_| Token::new(&text));
        let wrong = |why| Failure::usage(format!("{} {}: {why}", right.flag(), path.display()));
        tokens.set(*right, read.map_err(wrong)?);
    }
    match tokens.twice() {
        Some([one, other]) => Err(Failure::usage(format!(
            "the {} and the {} are the same; make another with: head -c 24 /dev/urandom | base64",
            one.token_name(),
            other.token_name()
        ))),
        None => Ok(tokens),
    }
}

fn options(resolved: &Resolved) -> Result<Options, Failure> {
    let serving = &resolved.serving;
    let tokens = tokens(resolved)?;
    let tls = match (&serving.tls_cert, &serving.tls_key) {
        (Some(cert), Some(key)) => Some(acceptor(cert, key).map_err(Failure::usage)?),
        _ => None,
    };
    Ok(Options {
        tokens,
        read_only: serving.read_only,
        hosts: serving.allow_host.clone(),
        tls,
        behind_tls: serving.behind_tls,
    })
}
