//! Which store the sources lead to.

use super::*;

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
        ("h:6379", "h:6379"),
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
        "h:",
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
            .contains("redis://host:port/db, rediss://host:port/db (TLS), redis+sentinel://")
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
fn the_servers_of_shards_are_separated_by_spaces_in_a_variable_and_in_a_file() {
    let both = "redis://:secret@one:1  redis://two:2";
    let file = format!("url = \"{both}\"\nshards = 4\n");
    let in_variable = case("start --shards 4").env("REDIS_URL", both);
    let in_file = case("start --config q.toml").file("q.toml", &file);
    for given in [in_variable, in_file] {
        let resolved = given.good();
        assert_eq!(resolved.address, "one:1");
        let others: Vec<&str> = resolved.others.iter().map(|(_, shown)| shown.as_str()).collect();
        assert_eq!(others, ["two:2"]);
    }
    // Each flag has one: a path may have spaces.
    let mut files = case("start --shards 2 --url");
    files.line.extend(["sqlite:/a b/q.db", "--url", "sqlite:/c/q.db"]);
    assert_eq!(files.good().others.len(), 1);
    assert!(case("start").env("REDIS_URL", both).run().is_err());
    // More servers than shards are for a reshard.
    assert_eq!(case("start --shards 1").env("REDIS_URL", both).good().others.len(), 1);
}

#[test]
fn an_address_in_a_variable_that_is_not_read_is_refused() {
    let said = case("").env("QUEENRIGHT_URL", "redis://u:secret@db1").line();
    let reason = "the address of the store is read from REDIS_URL: set that instead";
    assert_eq!(said, format!("QUEENRIGHT_URL: {reason}"));
    let said = case("--env=prod").file("prod", "QUEENRIGHT_URL=redis://db1").line();
    assert_eq!(said, format!("QUEENRIGHT_URL in prod: {reason}"));
    // Empty variables count as unset.
    assert_eq!(case("").env("QUEENRIGHT_URL", "").good().address, "localhost:6379");
}

#[test]
fn several_urls_without_a_number_of_shards_are_refused() {
    // The last one alone was used: a queue in another place than anybody meant.
    let refused = "2 URLs are for a queue with shards: say with --shards how many it has (1, if it has none yet), or give one URL";
    let flags = case("push x --url redis://one --url redis://two");
    let variable = case("start").env("REDIS_URL", "redis://one redis://two");
    let files = case("start").env("REDIS_URL", "sqlite:a.db sqlite:b.db");
    for case in [flags, variable, files] {
        assert!(case.line().contains(refused), "{}", case.line());
    }
    let spaced = case("start").env("REDIS_URL", "sqlite:/my files/queue.db").good();
    assert!(matches!(spaced.store, Store::Sqlite(_)));
}
