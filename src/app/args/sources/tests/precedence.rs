//! Which source wins.

use super::*;

#[test]
fn without_any_source_the_defaults_hold() {
    let resolved = case("").good();
    assert_eq!(resolved.address, "localhost:6379");
    assert_eq!(resolved.settings, crate::settings::Settings::default());
    assert_eq!(resolved.work, crate::app::args::value::Work::default());
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
