//! Where settings come from, with real files and a real environment.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::fleet::{Fleet, PATIENCE, PROGRAM, bare, program, said, within};
use crate::server::RedisServer;

/// A started copy that is ended with the test, also by a panic.
struct Copy(std::process::Child);

impl Copy {
    fn start(command: &mut Command) -> Self {
        Self(command.stderr(Stdio::null()).spawn().expect("the program starts"))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Arguments, environment, and the queue that they should lead to.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

/// Waits until a queue of this name exists.
fn wait_for_queue(server: &RedisServer, queue: &str) {
    let key = format!("{{qr:{queue}}}:meta");
    let exists = || (server.command(&["EXISTS", &key]) == Ok(redis::Value::Int(1))).then_some(());
    within(PATIENCE, exists).unwrap_or_else(|| panic!("no queue {queue}"));
}

fn key_exists(server: &RedisServer, key: &str) -> bool {
    server.command(&["EXISTS", key]) == Ok(redis::Value::Int(1))
}

/// Five lines, as the original task has them.
fn five_lines(server: &RedisServer, queue: &str, errors: &str) -> String {
    format!("127.0.0.1:{}\n{queue}\n{errors}\nnotify\nelect\n", server.port())
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("text").to_string()
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

#[test]
fn the_config_txt_beside_the_executable_is_read_and_said_so() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let copied = directory.path().join("queenright");
    std::fs::copy(PROGRAM, &copied).expect("copied");
    write(
        directory.path(),
        "config.txt",
        &five_lines(&server, "old-queue", "old-errors"),
    );
    let _generator = Copy::start(bare(Command::new(&copied)).args(["--interval", "5ms", "--work", "0"]));
    let _handler = Copy::start(bare(Command::new(&copied)).args(["--work", "0", "--error-rate", "1"]));
    wait_for_queue(&server, "old-queue");
    let failed = || key_exists(&server, "{qr:old-queue}:old-errors").then_some(());
    within(PATIENCE, failed).expect("errors are stored under the name of line 3");
    let read = output(bare(Command::new(&copied)).arg("getErrors"));
    assert!(read.status.success() && !read.stdout.is_empty(), "{}", said(&read));
    let stderr = String::from_utf8_lossy(&read.stderr);
    assert!(stderr.contains("config.txt") && stderr.lines().count() == 1, "{stderr}");
    // Any other source, and it is not read.
    let read = output(
        bare(Command::new(&copied))
            .arg("getErrors")
            .env("REDIS_URL", server.url()),
    );
    assert_eq!(read.status.code(), Some(1), "{}", said(&read));
    assert!(
        said(&read).contains("old-queue") && !said(&read).contains("config.txt"),
        "{}",
        said(&read)
    );
}

#[test]
fn a_node_with_other_key_names_refuses_to_start() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let old = write(directory.path(), "old.txt", &five_lines(&server, "named", "bad-ones"));
    let _first = Copy::start(program().args(["--config", &old]));
    wait_for_queue(&server, "named");
    let other = write(directory.path(), "other.txt", &five_lines(&server, "named", "failures"));
    let toml = format!(
        "port = {}\nqueue = 'named'\n[keys]\nerrors = 'failures'\n",
        server.port()
    );
    let toml = write(directory.path(), "other.toml", &toml);
    for config in [&other, &toml] {
        let refused = output(program().args(["--config", config]));
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(stderr.contains("bad-ones") && stderr.contains("failures"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn toml_and_a_file_of_variables_and_the_environment_and_flags_are_read_in_this_order() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let toml = format!(
        "url = '{}'\nqueue = 'of-toml'\ninterval = '20ms'\nmessages = 3\n",
        server.url()
    );
    let toml = write(directory.path(), "queenright.toml", &toml);
    let env = write(directory.path(), "prod.env", "export QUEENRIGHT_QUEUE='of-env'\n");
    let with_env = format!("--env={env}");
    let cases: [Case<'_>; 4] = [
        (&["--config", &toml], &[], "of-toml"),
        (&["--config", &toml, &with_env], &[], "of-env"),
        (
            &[&with_env],
            &[("QUEENRIGHT_CONFIG", &toml), ("QUEENRIGHT_QUEUE", "of-environment")],
            "of-environment",
        ),
        (
            &["--config", &toml, "-q", "of-flag"],
            &[("QUEENRIGHT_QUEUE", "of-environment")],
            "of-flag",
        ),
    ];
    for (args, environment, queue) in cases {
        let _copy = Copy::start(program().args(args).envs(environment.iter().copied()));
        wait_for_queue(&server, queue);
        server.command(&["FLUSHALL"]).expect("flushed");
    }
}

#[test]
fn the_dotenv_file_of_the_working_directory_is_read_only_when_asked_for() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    write(
        directory.path(),
        ".env",
        &format!("REDIS_HOST=127.0.0.1\nREDIS_PORT={}\n", server.port()),
    );
    let _copy = Copy::start(
        program()
            .args(["--env", "start", "-q", "asked"])
            .current_dir(directory.path()),
    );
    wait_for_queue(&server, "asked");
}

#[test]
fn a_flag_for_the_host_beats_a_url_of_the_environment_as_a_whole() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 20ms --work 0 --error-rate 0 --messages 3")
        .start();
    fleet.add("");
    fleet.wait_through(3);
    let mut status = fleet.command(&["status", "--json"]);
    let status = output(status.env("REDIS_URL", "redis://:secret@nowhere.invalid:1/7"));
    assert!(status.status.success(), "{}", said(&status));
    let bare_start = output(program().args(["--no-wait"]).env("REDIS_URL", "redis://127.0.0.1:1"));
    assert_eq!(
        bare_start.status.code(),
        Some(69),
        "bare queenright is start: {}",
        said(&bare_start)
    );
}
