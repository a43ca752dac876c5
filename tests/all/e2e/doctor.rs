//! `doctor`, on servers in each state that it warns of.

use queenright::app::lab::topology::{Fsync, Kind, Topology};
use queenright::engine::redis::ACL_LINE;
use serde_json::Value;

use crate::fleet::{Fleet, PATIENCE, program, said, within};
use crate::server::RedisServer;

/// What it found, and the exit code.
struct Visit {
    code: i32,
    verdict: String,
    checks: Vec<Value>,
}

impl Visit {
    /// The verdict on one thing, what was found, and what to do.
    fn of(&self, check: &str) -> (&str, &str, &str) {
        let found = self.checks.iter().find(|found| found["check"] == check);
        let found = found.unwrap_or_else(|| panic!("no {check}: {:#?}", self.checks));
        let text = |name: &str| found[name].as_str().unwrap_or_default();
        (text("verdict"), text("found"), text("fix"))
    }

    fn is(&self, check: &str, verdict: &str, found: &str, fix: &str) {
        let (got, says, advises) = self.of(check);
        assert_eq!(got, verdict, "{check}: {says} {advises}");
        assert!(
            says.contains(found) && advises.contains(fix),
            "{check}: {says:?} {advises:?}"
        );
    }
}

fn visit(args: &str) -> Visit {
    let output = program()
        .args(["doctor", "--json"])
        .args(args.split_whitespace())
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    Visit {
        code: output.status.code().expect("it ends by itself"),
        verdict: value["verdict"].as_str().expect("a verdict").into(),
        checks: value["checks"].as_array().expect("checks").clone(),
    }
}

fn at(server: &RedisServer) -> Visit {
    visit(&format!("--url {}", server.url()))
}

#[test]
fn a_server_as_it_should_be_is_fine() {
    let server = RedisServer::durable();
    let fleet = Fleet::on(&server)
        .queue("queenright")
        .args("--work 0 --lease 20s")
        .start_led();
    let found = at(&server);
    for check in [
        "connection",
        "server",
        "eviction",
        "persistence",
        "replication",
        "clock",
        "rights",
        "layout",
        "nodes",
    ] {
        assert_eq!(found.of(check).0, "ok", "{check}: {:?}", found.of(check));
    }
    found.is("persistence", "ok", "fsync always", "");
    found.is("nodes", "ok", "1 node alive", "");
    assert!(found.of("latency").1.contains("p99"), "{:?}", found.of("latency"));
    assert_eq!(found.code, 0);
    let left = server
        .command(&["EXISTS", "{qr:queenright}:doctor"])
        .expect("an answer");
    assert_eq!(left, redis::Value::Int(0), "nothing is left behind");
    drop(fleet);
    // For people: a line each, with the verdict first.
    let output = program()
        .args(["doctor", "--url", &server.url()])
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    assert!(text.lines().any(|line| line.starts_with("ok       rights")), "{text}");
}

#[test]
fn a_server_that_evicts_or_keeps_nothing_is_told_of() {
    let server = RedisServer::with_args(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let found = at(&server);
    found.is("eviction", "wrong", "allkeys-lru", "maxmemory-policy noeviction");
    found.is("persistence", "warning", "a restart loses the queue", "appendonly yes");
    found.is("layout", "ok", "no queue queenright yet", "");
    assert_eq!((found.code, found.verdict.as_str()), (1, "wrong"));
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).expect("set");
    let found = at(&server);
    found.is("eviction", "warning", "harmless", "noeviction");
    assert_eq!(
        (found.code, found.verdict.as_str()),
        (0, "warning"),
        "warnings are no failure"
    );
    server.command(&["CONFIG", "SET", "save", "60 1000"]).expect("set");
    at(&server).is("persistence", "warning", "snapshots only", "appendonly yes");
    server
        .command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"])
        .expect("set");
    at(&server).is("eviction", "ok", "volatile-ttl", "");
    let found = visit(&format!("--url {} --replicas 1", server.url()));
    found.is("eviction", "warning", "what replicas have", "noeviction");
}

#[test]
fn a_log_that_a_restart_would_skip_is_told_of() {
    let server = RedisServer::durable();
    if server.command(&["ACL", "DRYRUN", "default", "PING"]).is_err() {
        return; // Redis 6.2 loads its log as nobody.
    }
    let acl = |line: &str| {
        let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(line.split(' ')).collect();
        server.command(&words).expect("set");
    };
    acl("chief on >honey ~* +@all");
    acl("bee on >honey ~* +@all -acl");
    let by = |user: &str| visit(&format!("--url redis://{user}:honey@127.0.0.1:{}", server.port()));
    by("chief").is("persistence", "ok", "append-only file", "");
    // As `user default off` in redis.conf.
    acl("default reset");
    let found = by("chief");
    found.is(
        "persistence",
        "warning",
        "restart skips every script",
        "ACL SETUSER default",
    );
    assert_eq!(found.code, 0);
    by("bee").is("persistence", "ok", "append-only file", "");
    // What counts is what it may do, not whether one can log in as it.
    let chief = format!("redis://chief:honey@127.0.0.1:{}", server.port());
    let mut chief = redis::Client::open(chief)
        .and_then(|client| client.get_connection())
        .expect("connected");
    for (rights, verdict) in [
        ("~other:* +@all", "warning"),
        ("resetkeys ~* +@all", "ok"),
        ("-@sortedset", "warning"),
    ] {
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER")
            .arg("default")
            .arg(rights.split(' ').collect::<Vec<_>>());
        set.query::<()>(&mut chief).expect("set");
        assert_eq!(by("chief").of("persistence").0, verdict, "{rights}");
    }
}

#[test]
fn it_says_whether_acknowledged_writes_are_kept() {
    let primary = RedisServer::durable();
    at(&primary).is("kept", "ok", "keeps acknowledged writes: yes", "");
    primary
        .command(&["CONFIG", "SET", "appendfsync", "everysec"])
        .expect("set");
    let found = at(&primary);
    found.is("kept", "warning", "no; a power cut", "appendfsync always");
    assert_eq!(found.code, 0);
    // A user who may not ask for settings, and one who may not even ask for INFO.
    for (less, says) in [("-config", "how often its log"), ("-info", "how it keeps them")] {
        let user = ["ACL", "SETUSER", "bee", "reset", "on", ">honey", "~*", "+@all", less];
        primary.command(&user).expect("a user");
        let found = visit(&format!("--url redis://bee:honey@127.0.0.1:{}", primary.port()));
        found.is(
            "kept",
            "ok",
            &format!("cannot tell; the server does not tell {says}"),
            "",
        );
    }
    let replica = RedisServer::start();
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).expect("set");
    within(PATIENCE, || {
        (at(&primary).of("replication").1.contains("primary of 1")).then_some(())
    })
    .expect("it follows");
    at(&primary).is("kept", "warning", "no; a failover takes back", "--replicas");
    let found = visit(&format!("--url {} --replicas 1", primary.url()));
    found.is("kept", "ok", "yes; all replicas have them", "");
    primary.command(&["CONFIG", "SET", "appendonly", "no"]).expect("set");
    let found = visit(&format!("--url {} --replicas 1", primary.url()));
    found.is("kept", "warning", "no; there is no append-only file", "appendonly yes");
}

#[test]
fn of_a_cluster_the_server_that_has_the_queue_is_examined() {
    let directory = tempfile::tempdir().expect("a directory");
    let servers = Topology::start(Kind::Cluster, 1, directory.path(), Fsync::Never).expect("servers");
    let owner = servers.agreed("queenright").expect("an owner");
    let other = (0..servers.len()).find(|at| *at != owner).expect("another one");
    let evicts = |server, policy| {
        for (name, value) in [("maxmemory", "100mb"), ("maxmemory-policy", policy)] {
            let set = ["CONFIG", "SET", name, value];
            servers.ask::<redis::Value>(server, &set).expect("set");
        }
    };
    let asked = |server| visit(&format!("--url {}", servers.url_of(server)));
    evicts(other, "allkeys-lru");
    for server in 0..servers.len() {
        asked(server).is("eviction", "ok", "noeviction", "");
    }
    evicts(owner, "allkeys-lru");
    evicts(other, "noeviction");
    for server in 0..servers.len() {
        let found = asked(server);
        found.is("eviction", "wrong", "allkeys-lru", "noeviction");
        assert_eq!(found.code, 1);
    }
}

#[test]
fn a_replica_is_no_place_for_a_queue() {
    let primary = RedisServer::start();
    let replica = RedisServer::start();
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).expect("set");
    let found = at(&replica);
    found.is(
        "replication",
        "wrong",
        "takes no writes",
        &format!("redis://127.0.0.1:{port}"),
    );
    assert_eq!(found.code, 1);
}

#[test]
fn what_a_user_lacks_is_told_as_the_line_that_grants_it() {
    let server = RedisServer::durable();
    let rights = "ACL SETUSER bee on >honey ~other:* +@all -hset -evalsha -ltrim";
    server.command(&rights.split(' ').collect::<Vec<_>>()).expect("set");
    let url = format!("--url redis://bee:honey@127.0.0.1:{} -q jobs", server.port());
    let found = visit(&url);
    let (verdict, says, line) = found.of("rights");
    assert_eq!((verdict, found.code), ("wrong", 1), "{says}");
    assert!(says.contains("bee") && !says.contains("honey"), "{says}");
    for grant in ["~{qr:jobs}:*", "+hset", "+evalsha", "+ltrim"] {
        assert!(line.split(' ').any(|word| word == grant), "no {grant}: {line}");
    }
    assert!(!line.contains("+zadd"), "only what is missing: {line}");
    // The very line, as it stands there.
    server.command(&line.split(' ').collect::<Vec<_>>()).expect("granted");
    let found = visit(&url);
    assert_eq!(
        (found.of("rights").0, found.code),
        ("ok", 0),
        "{:?}",
        found.of("rights")
    );
}

#[test]
fn a_user_with_the_granted_rights_alone_can_run_a_node() {
    let server = RedisServer::durable();
    server.command(&["ACL", "SETUSER", "bee", "on", ">honey"]).expect("set");
    let url = format!("--url redis://bee:honey@127.0.0.1:{} -q jobs", server.port());
    let found = visit(&url);
    let line = found.of("rights").2.to_string();
    let documented = ACL_LINE.replace("NAME on >PASSWORD", "bee").replace("QUEUE", "jobs");
    assert_eq!(
        line, documented,
        "who lacks everything is told the line that is documented"
    );
    server.command(&line.split(' ').collect::<Vec<_>>()).expect("granted");
    let found = visit(&url);
    found.is("rights", "ok", "+incrby", "");
    assert_eq!(
        found.code, 0,
        "what only effects need is no failure: {:?}",
        found.checks
    );
    let fleet = Fleet::on(&server)
        .queue("jobs")
        .copies(2)
        .args("--interval 10ms --messages 20 --work 0 --error-rate 0.3 --retries 1 --backoff 1ms --lease 20s")
        .args(&format!("--url redis://bee:honey@127.0.0.1:{}", server.port()))
        .start_joined();
    fleet.wait_through(20);
    assert!(!fleet.errors().is_empty() || fleet.status().failed == 0);
}

#[test]
fn a_wrong_password_and_no_password_are_told_apart_from_no_server() {
    let server = RedisServer::with_args(&["--requirepass", "secret"]);
    let found = visit(&format!("--url redis://:wrong@127.0.0.1:{}", server.port()));
    found.is("connection", "wrong", "", "password");
    assert_eq!(found.code, 1);
    assert!(!format!("{:?}", found.checks).contains("secret"));
    let found = visit(&format!("--url redis://127.0.0.1:{}", server.port()));
    found.is("connection", "wrong", "", "REDIS_PASS");
    assert_eq!(found.code, 1);
    let found = visit("--url redis://127.0.0.1:1");
    found.is("connection", "wrong", "", "--url");
    assert_eq!(found.code, 69);
}

#[test]
fn a_queue_of_a_newer_layout_or_with_other_names_is_told_of() {
    let server = RedisServer::durable();
    let meta = "{qr:queenright}:meta";
    let set = |layout: &str, names: &str| {
        let args = ["HSET", meta, "birth", "b", "layout", layout, "names", names];
        server.command(&args).expect("set");
    };
    set("99", "errors=errors bell=bell crown=crown");
    at(&server).is("layout", "wrong", "layout 99", "upgrade");
    set("1", "errors=failures bell=bell crown=crown");
    at(&server).is("layout", "wrong", "failures", "keys");
    server.command(&["DEL", meta]).expect("removed");
    server.command(&["SET", meta, "mine"]).expect("set");
    let found = at(&server);
    found.is("layout", "wrong", "WRONGTYPE", "queue");
    assert_eq!(found.code, 1);
}

#[test]
fn a_file_is_examined_and_never_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("q.db");
    let url = format!("--url sqlite:{}", path.display());
    let found = visit(&url);
    found.is("file", "ok", "creates it", "");
    assert!(!path.exists());
    let nowhere = visit(&format!("--url sqlite:{}/none/q.db", directory.path().display()));
    nowhere.is("file", "wrong", "not there", "create it");
    assert_eq!(nowhere.code, 1);
    let fleet = Fleet::in_file(&path)
        .queue("queenright")
        .args("--work 0 --lease 20s")
        .start_led();
    let found = visit(&url);
    found.is("nodes", "ok", "1 node alive", "");
    found.is("persistence", "ok", "power cut", "");
    assert_eq!(found.code, 0);
    drop(fleet);
    let other = directory.path().join("other");
    std::fs::write(
        &other,
        "no database at all, but long enough to be looked at as one".repeat(100),
    )
    .expect("written");
    let found = visit(&format!("--url sqlite:{}", other.display()));
    assert_eq!((found.of("file").0, found.code), ("wrong", 1));
}

#[test]
fn a_user_who_may_not_subscribe_is_told_what_is_missing_for_deaths_to_be_seen() {
    let server = RedisServer::durable();
    let line = ACL_LINE.replace("NAME", "bee").replace("PASSWORD", "honey");
    let line = line.replace(" &{qr:QUEUE}:*", "").replace("QUEUE", "deaf");
    server.command(&line.split(' ').collect::<Vec<_>>()).expect("a user");
    let url = format!("--url redis://bee:honey@127.0.0.1:{} -q deaf", server.port());
    let found = visit(&url);
    found.is(
        "watching",
        "warning",
        "its lease has run out",
        "ACL SETUSER bee &{qr:deaf}:* +subscribe",
    );
    assert_eq!(found.code, 0, "it works without: {:?}", found.checks);
    let fix = found.of("watching").2.to_string();
    server.command(&fix.split(' ').collect::<Vec<_>>()).expect("granted");
    visit(&url).is("watching", "ok", "at once", "");
}
