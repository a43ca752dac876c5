//! Stores that others run: what each refuses by its documentation, as rights and missing commands of a real server.
//!
//! The table is the one of `docs/operations.md`. It shows what follows from what is documented, not how the service behaves.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::push::{feed, good};
use crate::dashboard::board::Board;
use crate::dashboard::client::get;
use crate::fleet::{Fleet, Plan, json_lines, said};
use crate::server::RedisServer;

/// What a store does not have.
struct Profile {
    store: &'static str,
    /// Commands, and words with `|` where only a part of one is refused.
    lacks: &'static str,
    /// It speaks the protocol of a cluster, and has database 0 only.
    is_cluster: bool,
    /// Databases other than 0.
    has_databases: bool,
}

/// What nobody may do who does not run the servers.
const ADMIN: &str = "bgrewriteaof bgsave config debug migrate replicaof save shutdown slaveof sync";

const PROFILES: &[Profile] = &[
    Profile {
        store: "Amazon ElastiCache",
        lacks: "",
        is_cluster: false,
        has_databases: true,
    },
    Profile {
        store: "Amazon ElastiCache, cluster mode",
        lacks: "cluster|addslots cluster|delslots cluster|setslot",
        is_cluster: true,
        has_databases: false,
    },
    Profile {
        store: "Amazon ElastiCache Serverless",
        lacks: "keys role wait monitor lastsave latency memory slowlog swapdb psync",
        is_cluster: true,
        has_databases: false,
    },
    Profile {
        store: "Amazon MemoryDB",
        lacks: "acl|deluser acl|load acl|save acl|setuser cluster|addslots cluster|delslots cluster|setslot module psync",
        is_cluster: true,
        has_databases: false,
    },
    Profile {
        store: "Google Memorystore for Redis",
        lacks: "acl client cluster command lastsave monitor object",
        is_cluster: false,
        has_databases: true,
    },
    Profile {
        store: "Google Memorystore for Valkey, for Redis Cluster",
        lacks: "acl failover lastsave latency module monitor psync role slowlog swapdb wait",
        is_cluster: true,
        has_databases: false,
    },
    Profile {
        store: "Azure Cache for Redis",
        lacks: "acl psync replconf cluster|addslots cluster|delslots cluster|setslot cluster|failover",
        is_cluster: false,
        has_databases: true,
    },
    Profile {
        store: "Azure Managed Redis",
        lacks: "acl|setuser acl|load acl|save acl|log failover lastsave module psync role swapdb wait",
        is_cluster: true,
        has_databases: false,
    },
    Profile {
        store: "Aiven",
        lacks: "acl cluster command failover lastsave monitor role",
        is_cluster: false,
        has_databases: true,
    },
    Profile {
        store: "Upstash",
        lacks: "cluster failover lastsave latency memory module psync role slowlog swapdb wait",
        is_cluster: false,
        has_databases: false,
    },
    // No service, but the worst of all: a server that tells nothing of itself, and runs no script by its digest.
    Profile {
        store: "",
        lacks: "info role cluster pubsub wait acl client command evalsha script hello",
        is_cluster: false,
        has_databases: false,
    },
];

const PASS: &str = "honey";

/// How a store refuses.
#[derive(Debug, Clone, Copy)]
enum Refuses {
    /// `NOPERM`, as if the user lacked a right.
    AsRights,
    /// `ERR unknown command`.
    AsUnknown,
}

struct Bed {
    server: RedisServer,
    url: String,
}

impl Bed {
    /// A fleet in one of its databases.
    fn fleet(&self, database: &str) -> Plan {
        let plan = Fleet::at(format!("{}/{database}", self.url));
        if self.url.contains('@') {
            plan.env("REDIS_PASS", PASS)
        } else {
            plan
        }
    }
}

fn bed(profile: &Profile, refuses: Refuses) -> Bed {
    let words: Vec<&str> = ADMIN.split(' ').chain(profile.lacks.split_whitespace()).collect();
    let mut args = Vec::new();
    if profile.is_cluster {
        args.extend(["--cluster-enabled", "yes"]);
    } else if !profile.has_databases {
        args.extend(["--databases", "1"]);
    }
    // The test itself asks who answers, and makes a cluster of it.
    let ours = |word: &&&str| !word.contains('|') && !["info", "cluster", "hello"].contains(*word);
    if matches!(refuses, Refuses::AsUnknown) {
        for word in words.iter().filter(ours) {
            args.extend(["--rename-command", word, ""]);
        }
    }
    let server = RedisServer::with_args(&args);
    if profile.is_cluster {
        let slots: Vec<String> = (0..16_384).map(|slot: u32| slot.to_string()).collect();
        let mut command = vec!["CLUSTER", "ADDSLOTS"];
        command.extend(slots.iter().map(String::as_str));
        server.command(&command).expect("all slots");
    }
    let at = format!("127.0.0.1:{}", server.port());
    if matches!(refuses, Refuses::AsUnknown) {
        let url = format!("redis://{at}");
        return Bed { server, url };
    }
    server
        .command(&["ACL", "SETUSER", "bee", "on", &format!(">{PASS}"), "~*", "&*", "+@all"])
        .expect("a user");
    for word in words {
        let less = format!("-{word}");
        let set = server.command(&["ACL", "SETUSER", "bee", &less]);
        // Redis 6.2 cannot take away a part of a command, and none has every command.
        assert!(
            set.is_ok() || word.contains('|') || is_unknown(&server, word),
            "{less}: {set:?}"
        );
    }
    let url = format!("redis://bee@{at}");
    Bed { server, url }
}

fn is_unknown(server: &RedisServer, word: &str) -> bool {
    let told = server.command(&["COMMAND", "INFO", word]).expect("told");
    matches!(told, redis::Value::Array(told) if told == [redis::Value::Nil])
}

/// Pushes a message under a key of its own; returns its number.
fn push_large(fleet: &Fleet) -> u64 {
    let line = serde_json::json!({ "payload": "x".repeat(200_000), "key": "once" });
    let told = good(&feed(fleet, &["push", "--json"], &format!("{line}\n")));
    json_lines(told.as_bytes())[0]["number"].as_u64().expect("a number")
}

/// A fleet publishes, handles and fails; someone pushes, reads errors and looks.
fn works_on(profile: &Profile, refuses: Refuses) {
    let bed = bed(profile, refuses);
    let what = format!("{:?} on {:?}", refuses, profile.store);
    let mut fleet = bed
        .fleet("0")
        .copies(2)
        .args("--interval 5ms --work 0 --error-rate 0.3 --lease 20s")
        .start_joined();
    fleet.wait_for_more("done", 20);
    fleet.wait_for_more("error", 3);
    // One that is large is kept apart from its message.
    let number = push_large(&fleet);
    assert_eq!(number, push_large(&fleet), "{what}: it has a key");
    fleet.wait_for("what was pushed is handled", |lines| {
        let mut settled = lines.iter().filter(|line| line.is("done") || line.is("error"));
        settled.any(|line| line.number == Some(number))
    });
    assert!(!fleet.errors().is_empty(), "{what}");
    let status = fleet.wait_status("both are seen", |status| status.nodes.len() == 2);
    assert!(status.generator.is_some(), "{what}: {status:?}");
    good(&feed(&fleet, &["pause"], ""));
    good(&feed(&fleet, &["resume"], ""));
    let doctor = fleet.command(&["doctor"]).output().expect("it runs");
    assert_eq!(doctor.status.code(), Some(0), "{what}: {}", said(&doctor));
    assert!(
        good(&feed(&fleet, &["queues"], "")).contains(fleet.queue()),
        "{what}: it is listed"
    );
    let board = Board::at(&bed.url.replace("bee@", "bee:honey@"), fleet.queue(), &[]);
    let told = board.ask(&get("/api/v1/status")).is(200).json();
    assert_eq!(told["nodes"].as_array().map(Vec::len), Some(2), "{what}: {told}");
    fleet.nobody_exited_but(&[]);
    let lines = fleet.lines();
    let away = lines.iter().find(|line| line.is("away"));
    assert!(away.is_none(), "{what}: {away:?}");
    drop(bed.server);
}

#[test]
fn a_fleet_works_on_every_store_that_refuses_what_services_do() {
    for profile in PROFILES {
        works_on(profile, Refuses::AsRights);
    }
}

#[test]
fn a_fleet_works_on_every_store_that_does_not_know_what_services_lack() {
    for profile in PROFILES {
        works_on(profile, Refuses::AsUnknown);
    }
}

/// ElastiCache Serverless refuses scripts inside of MULTI. A real server refuses either all of it or nothing.
const WITHOUT_MULTI: Profile = Profile {
    store: "Amazon ElastiCache Serverless",
    lacks: "multi exec keys role wait",
    is_cluster: true,
    has_databases: false,
};

#[test]
fn a_fleet_publishes_flat_out_on_a_store_without_multi() {
    for refuses in [Refuses::AsRights, Refuses::AsUnknown] {
        let bed = bed(&WITHOUT_MULTI, refuses);
        let plan = bed.fleet("0").copies(2);
        let fleet = plan
            .args("--interval 0 --work 0 --error-rate 0 --messages 20000")
            .start_joined();
        fleet.wait_through(20_000);
    }
}

#[test]
fn databases_other_than_0_are_where_a_store_has_them_and_one_line_where_not() {
    for profile in PROFILES.iter().filter(|profile| !profile.store.is_empty()) {
        let bed = bed(profile, Refuses::AsRights);
        let fleet = bed.fleet("1").copies(0).start();
        let output = feed(&fleet, &["push", "hello"], "");
        if profile.has_databases {
            assert_eq!(good(&output), "0\n", "{}", profile.store);
        } else {
            let said = said(&output);
            assert_eq!(output.status.code(), Some(1), "{}: {said}", profile.store);
            assert!(said.contains("database"), "{}: {said}", profile.store);
        }
    }
}

#[test]
fn the_table_of_the_docs_is_the_one_that_is_tested() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let text = std::fs::read_to_string(page).expect("the page");
    assert!(
        text.contains("by its documented restrictions, not on the service itself"),
        "it says what it is"
    );
    for profile in PROFILES.iter().filter(|profile| !profile.store.is_empty()) {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| {} |", profile.store)));
        let row = row.unwrap_or_else(|| panic!("{} is not in docs/operations.md", profile.store));
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let protocol = if profile.is_cluster { "cluster" } else { "plain" };
        assert_eq!(cells[2], protocol, "{row}");
        let databases = if profile.has_databases { "all" } else { "0 only" };
        assert_eq!(cells[3], databases, "{row}");
        for word in profile.lacks.split_whitespace().filter(|word| !word.contains('|')) {
            assert!(cells[4].contains(&word.to_uppercase()), "{word} is not in: {row}");
        }
    }
}

/// The words of a line of MONITOR, with where it came from first.
fn words(line: &str) -> Vec<&str> {
    let Some((_, rest)) = line.split_once(" [") else {
        return Vec::new();
    };
    let Some((from, mut rest)) = rest.split_once("] ") else {
        return Vec::new();
    };
    let mut words = vec![from];
    while let Some(quoted) = rest.strip_prefix('"') {
        let mut is_escaped = false;
        let end = quoted.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        let Some(end) = end else { break };
        words.push(&quoted[..end]);
        rest = quoted[end + 1..].trim_start();
    }
    words
}

/// What the server did while `during` ran, one line for each command.
fn monitored(server: &RedisServer, during: impl FnOnce()) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    stream.write_all(b"MONITOR\r\n").expect("sent");
    let mut lines = BufReader::new(stream.try_clone().expect("the same"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("it watches");
    assert_eq!(line.trim(), "+OK");
    let reader = std::thread::spawn(move || lines.lines().map_while(Result::ok).collect::<Vec<_>>());
    during();
    // What came before this was told before this.
    server.command(&["ECHO", "the end"]).expect("an answer");
    std::thread::sleep(Duration::from_millis(200));
    stream.shutdown(std::net::Shutdown::Both).expect("closed");
    reader.join().expect("read")
}

#[test]
fn every_script_has_keys_and_declares_all_that_it_touches() {
    let server = RedisServer::start();
    let lines = monitored(&server, || {
        let fleet = Fleet::on(&server)
            .copies(2)
            .args("--interval 2ms --work 0 --error-rate 0.3 --retries 1 --lease 500ms")
            .start_joined();
        fleet.wait_for_more("error", 5);
        push_large(&fleet);
        good(&feed(&fleet, &["push", "--delay", "10ms", "later"], ""));
        fleet.status();
        for args in [&["errors", "list"][..], &["pause"], &["resume"], &["doctor"]] {
            assert!(
                fleet.command(args).output().expect("it runs").status.success(),
                "{args:?}"
            );
        }
        fleet.errors();
        fleet.wait_for_more("done", 50);
        drop(fleet);
        let plan = Fleet::on(&server).copies(3);
        let mut fleet = plan.args("--interval 2ms --work 0 --lease 500ms").start_led();
        fleet.wait_for_more("done", 5);
        fleet.kill9(0);
        fleet.wait_for("another one rules", |lines| {
            lines.iter().any(|line| line.is("elected") && line.copy != 0)
        });
        fleet.wait_for_more("done", 5);
        good(&feed(&fleet, &["purge", "--yes", "--force"], ""));
    });
    let (mut declared, mut scripts, mut touched) = (Vec::new(), 0, 0);
    for line in &lines {
        let words = words(line);
        let Some(command) = words.get(1).map(|command| command.to_lowercase()) else {
            continue;
        };
        if command == "evalsha" || command == "eval" {
            let count: usize = words[3].parse().expect("how many keys");
            assert!(count > 0, "a script without keys: {line:.200}");
            declared = words[4..4 + count].iter().map(ToString::to_string).collect();
            scripts += 1;
        } else if words[0].ends_with("lua") && !["time", "pubsub", "publish"].contains(&command.as_str()) {
            let keys = match command.as_str() {
                "del" | "unlink" => &words[2..],
                _ => &words[2..3],
            };
            for key in keys {
                assert!(
                    declared.iter().any(|declared| declared == key),
                    "{key} is not declared: {line:.200}"
                );
                touched += 1;
            }
        }
    }
    assert!(scripts > 100 && touched > 1000, "{scripts} scripts, {touched} keys");
}
