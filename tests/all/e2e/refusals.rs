//! What will not pass by itself is one line and an exit code, at once: with `--no-wait` everything, without it all that waiting
//! cannot help.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use crate::fleet::{PATIENCE, program, said, within};
use crate::server::RedisServer;

const META: &str = "{qr:queenright}:meta";
const NAMES: &str = "errors=errors bell=bell crown=crown";

/// Starts a node, which must end by itself, with this code, and say this in its last line.
fn ends(what: &str, args: &str, code: i32, word: &str) {
    let mut child = program()
        .args(["start", "--work", "0"])
        .args(args.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stderr = child.stderr.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let ended = within(PATIENCE, || child.try_wait().expect("a child of ours"));
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = reader.join().expect("read");
    let ended = ended.unwrap_or_else(|| panic!("{what}: it waits: {text}"));
    assert_eq!(ended.code(), Some(code), "{what}: {text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains(word), "{what}: {text}");
    assert!(!text.contains("panicked") && !text.contains("secret"), "{what}: {text}");
}

/// With `--no-wait` and without it.
fn ends_either_way(what: &str, args: &str, word: &str) {
    ends_with(1, what, args, word);
}

fn ends_with(code: i32, what: &str, args: &str, word: &str) {
    ends(what, &format!("{args} --no-wait"), code, word);
    ends(what, args, code, word);
}

/// Something that listens, reads a little and answers this.
fn answering(reply: &'static [u8]) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut bytes = [0; 512];
                while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
                    if stream.write_all(reply).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[test]
fn credentials_and_rights_that_are_wrong_are_told_at_once() {
    let server = RedisServer::with_args(&["--requirepass", "secret"]);
    let at = |user: &str| format!("--url redis://{user}127.0.0.1:{}", server.port());
    ends_either_way("a wrong password", &at(":wrong@"), "password");
    ends_either_way("no password", &at(""), "REDIS_PASS");
    let server = RedisServer::with_args(&["--requirepass", "secret", "--rename-command", "HELLO", ""]);
    let url = format!("redis://:secret@127.0.0.1:{}?protocol=resp3", server.port());
    ends_either_way("no RESP3", &format!("--url {url}"), "RESP2");
    for command in ["status", "doctor", "push x", "get-errors"] {
        let output = program().args(command.split(' ')).args(["--url", &url]).output();
        let output = output.expect("it starts");
        let said = said(&output);
        assert!(
            !output.status.success() && !said.contains("secret"),
            "{command}: {said}"
        );
    }
    let server = RedisServer::start();
    let at = |user: &str| format!("--url redis://{user}:honey@127.0.0.1:{}", server.port());
    for (user, rights) in [
        ("script", "~* +@all -evalsha -eval"),
        ("write", "~* +@all -hdel"),
        ("keys", "~other:* +@all"),
    ] {
        let line = format!("ACL SETUSER {user} on >honey {rights}");
        server.command(&line.split(' ').collect::<Vec<_>>()).expect("set");
        ends_either_way(rights, &at(user), "grant the user its rights");
    }
}

#[test]
fn a_wrong_place_is_told_at_once() {
    let server = RedisServer::start();
    let url = format!("--url redis://127.0.0.1:{}", server.port());
    ends_either_way("a database that is not there", &format!("{url}/99"), "database");
    let nobody = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    ends_either_way("no Redis", &format!("--url redis://127.0.0.1:{nobody}"), "no Redis");
    let tls = answering(b"\x15\x03\x01\x00\x02\x02\x46");
    ends_either_way("TLS is needed", &format!("--url redis://127.0.0.1:{tls}"), "rediss://");
    // It says nothing to the beginning of a conversation in TLS: as one that does not answer.
    let plain = format!("--url rediss://127.0.0.1:{} --no-wait", server.port());
    ends("TLS is not spoken", &plain, 69, "use redis://");
    ends("nobody", "--url redis://127.0.0.1:1 --no-wait", 69, "is away");
}

#[test]
fn a_queue_that_is_not_ours_is_told_at_once() {
    let server = RedisServer::start();
    let url = format!("--url {}", server.url());
    let found = |layout: &str, names: &str| {
        let args = ["HSET", META, "birth", "b", "layout", layout, "names", names, "seq", "0"];
        server.command(&args).expect("set");
    };
    found("99", NAMES);
    ends_either_way("a newer layout", &url, "upgrade");
    found("1", "errors=failures bell=bell crown=crown");
    // It is there, and was named in another way.
    ends_with(2, "other names", &url, "failures");
    server.command(&["DEL", META]).expect("removed");
    server.command(&["SET", META, "mine"]).expect("set");
    ends_either_way("a foreign key", &url, "another queue name");
    server.command(&["DEL", META]).expect("removed");
    server.command(&["SET", "{qr:queenright}:queue", "mine"]).expect("set");
    ends_either_way("a foreign key among the others", &url, "{qr:queenright}:queue");
}

#[test]
fn a_server_that_has_the_queue_no_more_is_told_of() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).expect("set");
    // It may be promoted: without --no-wait a node waits for that.
    let url = format!("--url {} --no-wait", replica.url());
    within(PATIENCE, || {
        let info = replica.command(&["INFO", "replication"]).ok()?;
        format!("{info:?}").contains("master_link_status:up").then_some(())
    })
    .expect("it follows");
    ends("a replica", &url, 69, "primary");
    // Whatever it would allow.
    replica
        .command(&["CONFIG", "SET", "replica-read-only", "no"])
        .expect("set");
    ends("a replica that takes writes", &url, 69, "it is a replica");
    let pushed = program().args(["push", "hello", "--url", &primary.url()]).output();
    assert!(pushed.expect("it runs").status.success());
    let keys = |server: &RedisServer| server.command(&["DBSIZE"]).expect("counted");
    within(PATIENCE, || (keys(&replica) == keys(&primary)).then_some(())).expect("it has the queue");
    // Each waits for a while whether it is promoted: all at the same time.
    std::thread::scope(|scope| {
        for command in ["push hello", "pause", "get-errors"] {
            let replica = &replica;
            scope.spawn(move || {
                let mut asking = program();
                asking.args(command.split(' ')).args(["--url", &replica.url()]);
                let ended = asking.output().expect("it runs");
                let said = said(&ended);
                assert_eq!(ended.status.code(), Some(69), "{command}: {said}");
                assert!(said.contains("it is a replica"), "{command}: {said}");
            });
        }
    });
    assert_eq!(keys(&replica), keys(&primary));
    assert_eq!(
        replica.command(&["HGET", META, "seq"]),
        primary.command(&["HGET", META, "seq"])
    );
    let here = cluster();
    ends(
        "a cluster without slots",
        &format!("--url {} --no-wait", here.url()),
        69,
        "CLUSTERDOWN",
    );
}

fn cluster() -> RedisServer {
    // The port of its bus is 10,000 above.
    RedisServer::with_args(&["--cluster-enabled", "yes", "--cluster-port", "0"])
}

#[test]
fn a_server_that_does_not_tell_of_itself_and_takes_scripts_only_whole_will_do() {
    let server = RedisServer::with_args(&["--rename-command", "EVALSHA", ""]);
    let hidden = ["ACL", "SETUSER", "default", "-info", "-role", "-cluster", "-config"];
    server.command(&hidden).expect("hidden");
    let mut fleet = crate::fleet::Fleet::on(&server)
        .copies(2)
        .args("--interval 10ms --work 0 --error-rate 0")
        .start_led();
    fleet.wait_for_more("done", 20);
    fleet.nobody_exited_but(&[]);
}
