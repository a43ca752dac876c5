//! How sources are merged, and every mistake in them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use redis::ConnectionAddr;

use super::{Builtin, Generating, Handling, Inputs, LogFormat, Program, Resolved, Store, resolve};
use crate::api::cron::{Cron, Missed};
use crate::app::args::parse;

const FIVE: &str = "db5:7005\nfivequeue\nbad\nding\nthrone\n";

/// A command line, an environment and files, none of them real.
#[derive(Default)]
struct Case {
    line: Vec<&'static str>,
    environment: BTreeMap<String, String>,
    files: BTreeMap<&'static str, String>,
}

fn case(line: &'static str) -> Case {
    Case {
        line: line.split_whitespace().collect(),
        ..Case::default()
    }
}

impl Case {
    fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    fn file(mut self, path: &'static str, text: &str) -> Self {
        self.files.insert(path, text.into());
        self
    }

    fn run(&self) -> Result<Resolved, String> {
        let asked = parse(std::iter::once("queenright").chain(self.line.iter().copied())).expect("parses");
        let read = |path: &Path| match self.files.get(path.to_str().unwrap_or_default()) {
            Some(text) => Ok(text.clone()),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let inputs = Inputs {
            asked: &asked,
            environment: &self.environment,
            read: &read,
            beside: Some(Path::new("/bin/config.txt")),
        };
        resolve(&inputs).map_err(|usage| usage.to_string())
    }

    fn good(&self) -> Resolved {
        self.run().expect("resolves")
    }

    fn line(&self) -> String {
        let line = self.run().map(|resolved| resolved.address).expect_err("is refused");
        assert!(!line.contains('\n') && !line.contains("secret"), "{line}");
        line
    }
}

fn server(resolved: &Resolved) -> &redis::ConnectionInfo {
    match &resolved.store {
        Store::Redis(server) => server,
        Store::Sqlite(_) => panic!("a file"),
    }
}

fn password(resolved: &Resolved) -> Option<&str> {
    server(resolved).redis_settings().password()
}

fn user(resolved: &Resolved) -> Option<&str> {
    server(resolved).redis_settings().username()
}

#[test]
fn a_file_is_a_place_for_a_queue_too() {
    for (url, path, full) in [
        ("--url sqlite:queue.db", "queue.db", false),
        ("--url sqlite:/var/lib/q.db?synchronous=full", "/var/lib/q.db", true),
        ("--url sqlite:///var/lib/q.db", "/var/lib/q.db", false),
    ] {
        let resolved = case(url).good();
        let Store::Sqlite(database) = &resolved.store else {
            panic!("{url}")
        };
        assert_eq!((database.path.to_str(), database.full), (Some(path), full));
    }
    assert!(case("--url sqlite:").line().contains("name a file"));
    assert!(case("--url sqlite:q?x=1").line().contains("synchronous"));
}

#[test]
fn without_any_source_the_defaults_hold() {
    let resolved = case("").good();
    assert_eq!(resolved.address, "localhost:6379");
    assert_eq!(resolved.settings, crate::settings::Settings::default());
    assert_eq!(resolved.work, super::Work::default());
    assert!((resolved.error_rate - 0.15).abs() < f64::EPSILON);
    assert_eq!(resolved.generate, Generating::Builtin(Builtin::Counter));
    assert_eq!(resolved.log, LogFormat::Text);
    assert!(!resolved.quiet && !resolved.no_wait && resolved.notes.is_empty() && resolved.metrics.is_none());
}

#[test]
fn flag_beats_environment_beats_variables_file_beats_config_beats_default() {
    let all = || {
        case("")
            .env("QUEENRIGHT_QUEUE", "environment")
            .file(".env", "QUEENRIGHT_QUEUE=dotenv\nQUEENRIGHT_LEASE=3s")
            .file("c.toml", "queue = 'config'\nlease = '4s'\ngrace = '5s'")
    };
    let run = |line: &'static str| Case {
        line: line.split_whitespace().collect(),
        ..all()
    };
    assert_eq!(run("--queue flag --env --config c.toml").good().settings.queue, "flag");
    let resolved = run("--env --config c.toml").good();
    assert_eq!(resolved.settings.queue, "environment");
    assert_eq!(resolved.settings.lease, Duration::from_secs(3));
    assert_eq!(resolved.settings.grace, Duration::from_secs(5));
    assert_eq!(
        case("--config c.toml")
            .file("c.toml", "queue = 'config'")
            .good()
            .settings
            .queue,
        "config"
    );
}

#[test]
fn every_option_can_come_from_the_environment() {
    let resolved = case("")
        .env("REDIS_HOST", "h")
        .env("REDIS_PORT", "7000")
        .env("REDIS_USER", "u")
        .env("REDIS_PASS", "p")
        .env("REDIS_DB", "3")
        .env("QUEENRIGHT_CONCURRENCY", "10000")
        .env("QUEENRIGHT_INTERVAL", "0")
        .env("QUEENRIGHT_MESSAGES", "1000000")
        .env("QUEENRIGHT_LEASE", "1s")
        .env("QUEENRIGHT_BATCH", "7")
        .env("QUEENRIGHT_GRACE", "1m")
        .env("QUEENRIGHT_MAX_BACKLOG", "9")
        .env("QUEENRIGHT_MAX_DELIVERIES", "2")
        .env("QUEENRIGHT_ALSO_HANDLE", "true")
        .env("QUEENRIGHT_RETRIES", "4")
        .env("QUEENRIGHT_BACKOFF", "2s")
        .env("QUEENRIGHT_PREFER", "never")
        .env("QUEENRIGHT_BURST", "1")
        .env("QUEENRIGHT_GENERATE", "text")
        .env("QUEENRIGHT_WORK", "0")
        .env("QUEENRIGHT_ERROR_RATE", "0.05")
        .env("QUEENRIGHT_LOG", "json")
        .env("QUEENRIGHT_QUIET", "1")
        .env("QUEENRIGHT_NO_WAIT", "yes")
        .env("QUEENRIGHT_METRICS", "127.0.0.1:9464")
        .env("QUEENRIGHT_HANDLE", "python3 'my handler.py'")
        .env("QUEENRIGHT_TIMEOUT", "5s")
        .good();
    assert_eq!(resolved.address, "h:7000/3");
    assert_eq!((user(&resolved), password(&resolved)), (Some("u"), Some("p")));
    let settings = &resolved.settings;
    assert_eq!((settings.retries, settings.backoff), (4, Duration::from_secs(2)));
    assert_eq!(
        (settings.prefer, settings.burst),
        (crate::settings::Prefer::Never, true)
    );
    assert_eq!(
        (settings.concurrency, settings.messages, settings.batch),
        (10_000, Some(1_000_000), Some(7))
    );
    assert_eq!(
        (settings.interval, settings.grace),
        (Duration::ZERO, Duration::from_mins(1))
    );
    assert_eq!(
        (settings.backlog_max, settings.deliveries_max, settings.also_handle),
        (9, 2, true)
    );
    assert_eq!(resolved.generate, Generating::Builtin(Builtin::Text));
    assert_eq!(resolved.log, LogFormat::Json);
    assert!(resolved.work.is_zero() && resolved.quiet && resolved.no_wait);
    assert_eq!(resolved.metrics.as_deref(), Some("127.0.0.1:9464"));
    let program = Program::parse("python3 'my handler.py'").unwrap();
    assert_eq!(resolved.handle, Handling::Child(program));
    assert_eq!(settings.timeout, Some(Duration::from_secs(5)));
}

#[test]
fn host_displaces_a_less_specific_url_with_its_password() {
    let resolved = case("--host db1").env("REDIS_URL", "redis://u:secret@other:1/4").good();
    assert_eq!(resolved.address, "db1:6379");
    assert_eq!((user(&resolved), password(&resolved)), (None, None));
    let resolved = case("-p 7000").env("REDIS_URL", "redis://:secret@other:1/4").good();
    assert_eq!(
        (resolved.address.as_str(), password(&resolved)),
        ("localhost:7000", None)
    );
}

#[test]
fn user_password_and_database_apply_to_whichever_address_was_chosen() {
    let resolved = case("--host db1")
        .env("REDIS_PASS", "p")
        .env("REDIS_DB", "2")
        .env("REDIS_PORT", "7")
        .good();
    assert_eq!((resolved.address.as_str(), password(&resolved)), ("db1:7/2", Some("p")));
    let resolved = case("")
        .env("REDIS_URL", "redis://u:a@h/1")
        .env("REDIS_PASS", "b")
        .env("REDIS_DB", "2")
        .good();
    assert_eq!((user(&resolved), password(&resolved)), (Some("u"), Some("b")));
    assert_eq!(resolved.address, "h:6379/2");
}

#[test]
fn parts_of_a_more_specific_url_are_not_overridden_from_below() {
    let lower = |line| {
        case(line)
            .env("REDIS_USER", "e")
            .env("REDIS_PASS", "e")
            .env("REDIS_DB", "9")
    };
    let resolved = lower("--url redis://:p@h/1").good();
    assert_eq!((user(&resolved), password(&resolved)), (None, Some("p")));
    assert_eq!(resolved.address, "h:6379/1");
    let resolved = lower("--url redis://h").good();
    assert_eq!((user(&resolved), password(&resolved)), (Some("e"), Some("e")));
    assert_eq!(resolved.address, "h:6379/9");
}

#[test]
fn within_the_environment_the_url_wins_over_the_host() {
    let both = case("").env("REDISURL", "redis://second").env("REDIS_HOST", "third");
    assert_eq!(both.good().address, "second:6379");
    assert_eq!(both.env("REDIS_URL", "redis://first").good().address, "first:6379");
}

#[test]
fn the_real_environment_wins_over_a_file_of_variables_as_a_whole() {
    let resolved = case("--env")
        .env("REDIS_HOST", "real")
        .file(".env", "REDIS_URL=redis://:x@file")
        .good();
    assert_eq!((resolved.address.as_str(), password(&resolved)), ("real:6379", None));
}

#[test]
fn empty_variables_count_as_unset() {
    let resolved = case("--env")
        .env("REDIS_URL", "")
        .env("REDIS_HOST", "")
        .file(".env", "REDIS_HOST=h")
        .good();
    assert_eq!(resolved.address, "h:6379");
}

#[test]
fn url_and_host_in_one_place_exclude_each_other() {
    let said = case("--url redis://:secret@h --host other").line();
    assert_eq!(said, "--url and --host exclude each other: give one of them");
    assert!(case("-u redis://h -p 1").line().contains("--port"));
    let said = case("--config c").file("c", "url = 'redis://h'\nhost = 'h'").line();
    assert!(said.starts_with("c: url and c: host exclude"), "{said}");
}

#[test]
fn every_kind_of_url_is_understood() {
    for (url, shown) in [
        ("redis://h", "h:6379"),
        ("redis://h:1/2", "h:1/2"),
        ("REDIS://h", "h:6379"),
        ("rediss://h:1", "rediss://h:1"),
        ("redis://[::1]:7", "[::1]:7"),
        ("unix:/run/r.sock", "unix:/run/r.sock"),
        ("unix:///run/r.sock?db=1", "unix:/run/r.sock?db=1"),
        ("redis+unix:///run/r.sock", "unix:/run/r.sock"),
    ] {
        assert_eq!(case("").env("REDIS_URL", url).good().address, shown, "{url}");
    }
    let resolved = case("").env("REDIS_URL", "rediss://a%40b:p%3A%2F%23@h").good();
    assert_eq!((user(&resolved), password(&resolved)), (Some("a@b"), Some("p:/#")));
    assert!(matches!(
        server(&resolved).addr(),
        ConnectionAddr::TcpTls { insecure: false, .. }
    ));
    assert!(!format!("{resolved:?}").contains("p:/#"));
}

#[test]
fn a_bad_url_gets_one_line_that_names_its_place_and_hides_its_password() {
    for url in [
        "http://:secret@h",
        "h:6379",
        "redis:",
        "redis://",
        "redis://:secret@",
        "redis://:secret@h:port",
        "redis://:secret@h:99999",
        "redis://:secret@h/db",
        "redis://:secret@h/-1",
        "redis://:secret@h?db=1",
        "redis://:se#secret@h",
        "redis://:secret@h/#insecure",
        "redis://:secret@h?protocol=9",
        "redis://u:secret%ff@h",
        "unix:relative",
        "unix:/s?pass=secret&db=x",
    ] {
        let said = case("").env("REDIS_URL", url).line();
        assert!(said.starts_with("REDIS_URL: "), "{url}: {said}");
    }
    assert!(
        case("--url mysql:x")
            .line()
            .contains("redis://host:port/db, rediss://host:port/db (TLS), unix:/path or sqlite:/path")
    );
}

#[test]
fn a_bad_host_says_where_the_rest_belongs() {
    assert!(case("--host h:1").line().contains("--port"));
    assert!(case("--host redis://:secret@h").line().contains("--url"));
    assert!(case("--host secret@h").line().contains("--url"));
    assert!(case("--host /run/r.sock").line().contains("unix:/path"));
    assert!(case("").env("REDIS_HOST", "a b").line().starts_with("REDIS_HOST: "));
    assert_eq!(case("--host ::1").good().address, "[::1]:6379");
}

#[test]
fn a_password_on_the_command_line_works_and_warns() {
    for line in ["--pass secret", "--url redis://:secret@h", "-u unix:/s?pass=secret"] {
        let resolved = case(line).good();
        assert_eq!(password(&resolved), Some("secret"), "{line}");
        assert!(
            resolved.notes[0].contains("REDIS_PASS") && !resolved.notes[0].contains("secret"),
            "{line}"
        );
        assert!(!resolved.address.contains("secret"));
    }
    assert!(case("").env("REDIS_PASS", "secret").good().notes.is_empty());
    assert!(
        case("-h h")
            .env("REDIS_URL", "redis://:secret@h")
            .good()
            .notes
            .is_empty()
    );
}

#[test]
fn a_user_without_a_password_is_refused() {
    assert!(case("--user bob").line().contains("REDIS_PASS"));
    assert!(case("--user default").run().is_ok());
}

#[test]
fn bad_values_are_named_by_their_place() {
    for (line, start) in [
        ("--interval 500", "--interval: 500 needs a unit"),
        ("--work 1s..0", "--work: "),
        ("--error-rate 15%", "--error-rate: "),
        ("-c 0", "--concurrency: must be 1 to 100000"),
        ("-c many", "--concurrency: "),
        ("--batch 0", "--batch: "),
        ("--lease 1ms", "--lease: must be"),
        ("--max-deliveries 70000", "--max-deliveries: 70000 is too large"),
        ("--generate 'foo", "--generate: a quote is not closed"),
        ("--generate=", "--generate: names no program"),
        (
            "--generate a --generate-each b",
            "--generate and --generate-each exclude",
        ),
        (
            "--generate-json",
            "--generate-json: this is about what a command prints",
        ),
        ("--cron x", "--cron: 'x' is no cron pattern"),
        ("--tz UTC", "--tz: this needs --cron"),
        ("--missed never", "--missed: 'never' is not known: write once or skip"),
        ("--log xml", "--log: "),
        ("--port 0", "--port: "),
        ("--db x", "--db: "),
        ("--queue {a}", "--queue: "),
        ("--queue=", "--queue: "),
        ("--host=", "--host: "),
    ] {
        let said = case(line).line();
        assert!(said.starts_with(start), "{line}: {said}");
    }
    let said = case("").env("QUEENRIGHT_LEASE", "1ms").line();
    assert!(said.starts_with("QUEENRIGHT_LEASE: must be"), "{said}");
    let said = case("--env=prod").file("prod", "QUEENRIGHT_INTERVAL=5").line();
    assert!(
        said.starts_with("QUEENRIGHT_INTERVAL in prod: 5 needs a unit"),
        "{said}"
    );
}

#[test]
fn one_source_says_who_handles_and_a_more_specific_one_wins() {
    let program = |text| Program::parse(text).unwrap();
    let both = case("--handle-each b").env("QUEENRIGHT_HANDLE", "a").good();
    assert_eq!(both.handle, Handling::Each(program("b")));
    let toml = case("--config c").file("c", "handle-each = \"sh -c 'x y'\"").good();
    assert_eq!(toml.handle, Handling::Each(program("sh -c 'x y'")));
    let said = case("")
        .env("QUEENRIGHT_HANDLE", "a")
        .env("QUEENRIGHT_HANDLE_EACH", "b")
        .line();
    assert!(
        said.starts_with("QUEENRIGHT_HANDLE and QUEENRIGHT_HANDLE_EACH exclude"),
        "{said}"
    );
    let said = case("").env("QUEENRIGHT_HANDLE", "'x").line();
    assert!(said.starts_with("QUEENRIGHT_HANDLE: a quote"), "{said}");
}

#[test]
fn lines_come_as_they_come_unless_an_interval_is_asked_for() {
    let interval = |line| case(line).good().settings.interval;
    assert_eq!(interval("--generate seq"), Duration::ZERO);
    assert_eq!(interval("--generate -"), Duration::ZERO);
    assert_eq!(interval("--generate seq --interval 1s"), Duration::from_secs(1));
    assert_eq!(interval("--generate text"), Duration::from_millis(500));
    assert_eq!(interval("--generate-each date"), Duration::from_millis(500));
}

#[test]
fn a_schedule_takes_the_place_of_an_interval() {
    let scheduled = case("--tz Europe/Berlin --missed skip")
        .env("QUEENRIGHT_CRON", "0 3 * * *")
        .good();
    let (cron, missed) = scheduled.cron.expect("a schedule");
    assert_eq!(cron, Cron::new("0 3 * * *", "Europe/Berlin").unwrap());
    assert_eq!(missed, Missed::Skip);
    assert_eq!(scheduled.settings.interval, Duration::ZERO);
    assert_eq!(scheduled.generate, Generating::Builtin(Builtin::Tick));
    let paced = case("--interval 1s").env("QUEENRIGHT_CRON", "0 3 * * *").good();
    assert!(paced.cron.is_none(), "the more specific one wins");
    let said = case("--config c")
        .file("c", "cron = '0 3 * * *'\ninterval = '1s'")
        .line();
    assert!(said.starts_with("c: cron and c: interval exclude each other"), "{said}");
    let said = case("")
        .env("QUEENRIGHT_CRON", "0 3 * * *")
        .env("QUEENRIGHT_TZ", "Mars")
        .line();
    assert!(said.starts_with("QUEENRIGHT_TZ: 'Mars' is no time zone"), "{said}");
}

#[test]
fn a_missing_or_malformed_file_gets_one_line() {
    assert_eq!(case("--env").line(), "--env: cannot read .env: there is no such file");
    assert_eq!(
        case("--config c").line(),
        "--config: cannot read c: there is no such file"
    );
    assert!(
        case("")
            .env("QUEENRIGHT_CONFIG", "c")
            .line()
            .starts_with("QUEENRIGHT_CONFIG: cannot read c")
    );
    assert_eq!(
        case("--env").file(".env", "A=1\nsecret").line(),
        ".env:2: write NAME=value"
    );
    let said = case("--config c").file("c", "queue = 'a'\npass = secret").line();
    assert!(said.starts_with("c:2: this is no TOML"), "{said}");
}

#[test]
fn toml_has_the_names_of_the_flags_and_of_the_keys() {
    let text = "\u{feff}# comment\nurl = 'redis://h:1'\npass = 'p'\ndb = 2\nconcurrency = 1_000\ninterval = 0\nerror-rate = 0.05\n\
                also-handle = true\nwork = '0..20ms'\nmax-backlog = 5\n[keys]\nerrors = 'e'\nbell = 'b'\ncrown = 'c'\n";
    let resolved = case("--config c.toml").file("c.toml", text).good();
    assert_eq!((resolved.address.as_str(), password(&resolved)), ("h:1/2", Some("p")));
    assert_eq!(resolved.settings.names.line(), "errors=e bell=b crown=c");
    assert_eq!(
        (resolved.settings.concurrency, resolved.settings.also_handle),
        (1000, true)
    );
    assert!(resolved.notes.is_empty());
    for (text, start) in [
        ("concurency = 1", "c: concurency is not known"),
        ("env = '.env'", "c: env is not known"),
        ("[keys]\nqueue = 'x'", "c: keys.queue is not known"),
        ("[other]\na = 1", "c: other is not known"),
        ("queue = [1]", "c: queue must be text"),
        ("keys = 1", "c: keys is not known"),
        ("interval = 500", "c: interval: 500 needs a unit"),
        ("[keys]\nbell = 'a:b'", "key names: "),
    ] {
        let said = case("--config c").file("c", text).line();
        assert!(said.starts_with(start), "{text}: {said}");
    }
}

#[test]
fn the_five_line_form_names_server_queue_and_keys() {
    for text in [
        FIVE.to_string(),
        format!("\u{feff}{}\r\n \r\n", FIVE.replace('\n', "\r\n")),
    ] {
        let resolved = case("--config c").file("c", &text).good();
        assert_eq!(resolved.address, "db5:7005");
        assert_eq!(resolved.settings.queue, "fivequeue");
        assert_eq!(resolved.settings.names.line(), "errors=bad bell=ding crown=throne");
    }
    let resolved = case("")
        .env("QUEENRIGHT_CONFIG", "c")
        .file("c", "127.0.0.1\na\nb\nc\nd")
        .good();
    assert_eq!(resolved.address, "127.0.0.1:6379");
    let resolved = case("--config c").file("c", "[::1]:7\na\nb\nc\nd").good();
    assert_eq!(resolved.address, "[::1]:7");
    assert_eq!(
        case("--host other --config c").file("c", FIVE).good().address,
        "other:6379"
    );
}

#[test]
fn five_lines_are_exactly_five() {
    for (text, said) in [
        ("h:1\nq\ne\nb", "has 4 lines"),
        ("h:1", "has 1 line;"),
        ("h:1\nq\ne\nb\nc\nmore", "has 6 lines"),
        ("h:1\nq\n\nb\nc", "line 3 is empty"),
        ("h:port\nq\ne\nb\nc", "line 1: 'port' is no port"),
        ("h:1\nq\nsame\nsame\nc", "given twice"),
    ] {
        let line = case("--config c").file("c", text).line();
        assert!(line.contains(said), "{text:?}: {line}");
    }
}

#[test]
fn config_txt_beside_the_executable_is_read_only_when_nothing_else_names_a_redis() {
    let with = |line| case(line).file("/bin/config.txt", FIVE).file("c", "queue = 'x'");
    let resolved = with("--queue mine").good();
    assert_eq!(
        (resolved.address.as_str(), resolved.settings.queue.as_str()),
        ("db5:7005", "mine")
    );
    assert!(resolved.notes[0].contains("/bin/config.txt"), "{:?}", resolved.notes);
    for other in ["--host h", "--db 1", "--config c"] {
        let resolved = with(other).good();
        assert!(
            !resolved.address.contains("db5") && resolved.notes.is_empty(),
            "{other}"
        );
    }
    for name in ["REDIS_HOST", "REDIS_PASS", "REDISURL"] {
        let resolved = with("").env(name, "redis://h").run();
        assert!(
            !resolved.is_ok_and(|resolved| resolved.address.contains("db5")),
            "{name}"
        );
    }
    assert_eq!(with("").env("REDIS_HOST", "").good().address, "db5:7005");
    assert!(
        case("")
            .file("/bin/config.txt", "something else")
            .line()
            .starts_with("/bin/config.txt: has 1 line")
    );
}

#[test]
fn a_config_txt_that_cannot_be_read_is_not_passed_over() {
    let asked = parse(["queenright"]).expect("parses");
    let inputs = Inputs {
        asked: &asked,
        environment: &BTreeMap::new(),
        read: &|_| Err(io::Error::from(io::ErrorKind::InvalidData)),
        beside: Some(Path::new("/bin/config.txt")),
    };
    let said = resolve(&inputs).expect_err("is refused").to_string();
    assert!(
        said.starts_with("cannot read /bin/config.txt: it is not UTF-8 text (read since"),
        "{said}"
    );
}
