//! Files of variables and of options, and every mistake in them.

use super::*;

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
