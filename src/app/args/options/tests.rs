//! The table against everything that is made from it.

mod page;

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::app::args::parse::command;
use crate::app::args::sources::{Inputs, Store, resolve};
use crate::app::args::{Invocation, parse};
use crate::settings::{Names, Settings};
use page::{is_own, page};

#[test]
fn the_options_page_is_made_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/options.md");
    if std::env::var_os("QUEENRIGHT_WRITE").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let renew = "renew it with QUEENRIGHT_WRITE=1 cargo test --all-features --lib options_page";
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/options.md is not what the table gives: {renew}"
    );
}

#[test]
fn clap_knows_each_option_at_exactly_the_commands_that_take_it() {
    let whole = command();
    let at = |word: Option<&str>| match word {
        None => whole.clone(),
        Some(word) => whole.find_subcommand(word).expect("a command").clone(),
    };
    let words = whole.get_subcommands().map(|sub| Some(sub.get_name()));
    for word in std::iter::once(None).chain(words) {
        let command = at(word);
        for option in all() {
            let headed = |argument: &&clap::Arg| argument.get_help_heading() == Some(option.group.title);
            let named = |argument: &&clap::Arg| argument.get_id() == option.name;
            let found = command.get_arguments().filter(headed).find(named);
            let global = word.is_some() && option.group.scope == Scope::Every;
            let wanted = option.applies_to(word) && !global;
            assert_eq!(found.is_some(), wanted, "{word:?} {}", option.name);
            let Some(argument) = found else { continue };
            assert_eq!(argument.get_long(), Some(option.name));
            assert_eq!(argument.get_short(), option.short);
            assert_eq!(argument.is_global_set(), option.group.scope == Scope::Every);
        }
    }
}

#[test]
fn every_flag_of_every_command_is_on_the_page() {
    fn each(command: &clap::Command, word: &str, page: &str) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let word = format!("{word}{}", sub.get_name());
            let section = page
                .split("\n### ")
                .find(|section| section.lines().next() == Some(&word));
            for argument in sub.get_arguments().filter(|argument| is_own(argument, &word)) {
                let long = argument.get_long().map(|long| format!("`--{long}"));
                let found = long.is_none_or(|long| section.is_some_and(|section| section.contains(&long)));
                assert!(found, "{word}: {}", argument.get_id());
            }
            each(sub, &format!("{word} "), page);
        }
    }
    let page = page();
    each(&command(), "", &page);
    for option in all().filter(|option| option.group.scope != Scope::Hidden) {
        assert!(page.contains(&format!("{}`", option.name)) || page.contains(&format!("{} ", option.flag())));
        assert!(option.variables.iter().all(|name| page.contains(&format!("`{name}`"))));
        assert!(
            !option.help.is_empty() && !option.help.ends_with('.'),
            "{}",
            option.name
        );
    }
}

#[test]
fn names_variables_and_shorts_are_given_once() {
    let mut seen = std::collections::BTreeSet::new();
    for option in all() {
        let short = option.short.map(|short| format!("-{short}"));
        let names = option.variables.iter().map(ToString::to_string);
        for name in names.chain([option.flag()]).chain(short) {
            assert!(seen.insert(name.clone()), "{name} is given twice");
        }
        let upper = option.name.to_uppercase().replace('-', "_");
        let follows = |name: &&str| name.replace("REDISURL", "REDIS_URL").ends_with(&format!("_{upper}"));
        assert!(option.variables.iter().all(follows), "{:?}", option.variables);
    }
}

/// Two values that an option can have, neither of them the default.
fn samples(option: &Opt) -> [&'static str; 2] {
    let name = match option.takes {
        Takes::Nothing => return ["true", "false"],
        Takes::Value(name) | Takes::Several(name) | Takes::Maybe(name, _) | Takes::Optional(name, _) => name,
    };
    match name {
        "N" | "PORT" | "BYTES" => ["7", "8"],
        "DURATION" => ["7s", "8s"],
        "RATE" => ["0.7", "0.8"],
        "N/s" => ["7/s", "8/s"],
        "LOW..HIGH" => ["1s..7s", "1s..8s"],
        "URL" => ["redis://seven:7", "sqlite:eight"],
        "COMMAND" | "COMMAND|URL" | "counter|text|tick|COMMAND|-" => ["seven up", "eight up"],
        "HOST:PORT" | "ADDRESS:PORT" => ["127.0.0.1:7", "127.0.0.1:8"],
        "HOST" | "NAME" | "PASSWORD" | "FILE" | "PREFIX" => ["seven", "eight"],
        "TOKEN" => ["0123456789abcdef", "0123456789abcde7"],
        "text|json" => ["json", "text"],
        "once|skip" => ["skip", "once"],
        "generator|either|handler|never" => ["never", "handler"],
        "Europe/Berlin" => ["Europe/Berlin", "Asia/Tokyo"],
        "'*/5 * * * *'" => ["7 7 * * *", "8 8 * * *"],
        _ => panic!("{}: give two samples of {name} here", option.name),
    }
}

/// Options that are about another one, which is given with them.
fn company(option: &Opt) -> &'static [&'static str] {
    match option.name {
        "user" => &["--pass=seven"],
        "tz" | "missed" => &["--cron=1 1 * * *"],
        "generate-json" => &["--generate=seven up"],
        "cert-key" => &["--cert=seven"],
        "sentinel-user" => &["--url=redis+sentinel://seven/queen?sentinel_pass=seven"],
        "sentinel-pass" => &["--url=redis+sentinel://seven/queen"],
        "limit-burst" => &["--limit=7/s"],
        "tls-cert" => &["--tls-key=seven"],
        "tls-key" => &["--tls-cert=seven"],
        _ => &[],
    }
}

/// Where a value is set, by the option's own names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Flag,
    Variable(usize),
    Dotenv,
    File,
}

fn sources(option: &Opt) -> Vec<Source> {
    let mut sources = Vec::from_iter(option.has_flag.then_some(Source::Flag));
    sources.extend((0..option.variables.len()).map(Source::Variable));
    sources.extend((!option.variables.is_empty()).then_some(Source::Dotenv));
    sources.extend(option.is_in_file.then_some(Source::File));
    sources
}

/// All that the configuration is, with these values of an option.
fn configured(option: &Opt, given: &[(Source, &str)]) -> String {
    let mut line: Vec<String> = vec!["queenright".into()];
    if option.requires.is_none() || !given.is_empty() {
        line.extend(company(option).iter().map(ToString::to_string));
    }
    let (mut environment, mut dotenv, mut file) = (BTreeMap::new(), String::new(), String::new());
    for (source, value) in given {
        match source {
            Source::Flag if option.takes == Takes::Nothing => line.push(option.flag()),
            Source::Flag => line.push(format!("{}={value}", option.flag())),
            Source::Variable(at) => _ = environment.insert(option.variables[*at].to_string(), (*value).to_string()),
            Source::Dotenv => dotenv = format!("{}='{value}'", option.variables[0]),
            Source::File => file = format!("{} = \"{value}\"", option.name),
        }
    }
    for (name, text) in [("--env=variables", &dotenv), ("--config=options", &file)] {
        line.extend((!text.is_empty()).then(|| name.to_string()));
    }
    let asked: Invocation = parse(line.clone()).unwrap_or_else(|stop| panic!("{line:?}: {stop:?}"));
    let resolved = resolve(&Inputs {
        asked: &asked,
        environment: &environment,
        read: &|path| {
            Ok(if path == Path::new("variables") {
                dotenv.clone()
            } else {
                file.clone()
            })
        },
        beside: None,
    });
    let mut resolved = resolved.unwrap_or_else(|usage| panic!("{line:?} {environment:?} {file}: {usage}"));
    resolved.notes.clear();
    // What is not shown for debugging.
    let hidden = match &resolved.store {
        Store::Redis(place) => format!("{:?} {:?}", place.passwords(), place.user_at_sentinels()),
        Store::Sqlite(_) => String::new(),
    };
    format!("{hidden} {resolved:?}")
}

#[test]
fn each_option_can_be_set_by_flag_variable_and_file_and_the_more_specific_one_wins() {
    for option in all().filter(|option| !matches!(option.effect, Effect::Source)) {
        let [one, other] = samples(option);
        let default = configured(option, &[]);
        let sources = sources(option);
        assert!(!sources.is_empty(), "{} cannot be set", option.name);
        let wanted = configured(option, &[(sources[0], one)]);
        assert_ne!(wanted, default, "{} has no effect", option.name);
        for (at, source) in sources.iter().enumerate() {
            let found = configured(option, &[(*source, one)]);
            assert_eq!(found, wanted, "{} by {source:?}", option.name);
            for lower in &sources[at + 1..] {
                let found = configured(option, &[(*source, one), (*lower, other)]);
                assert_eq!(found, wanted, "{}: {source:?} over {lower:?}", option.name);
            }
        }
    }
}

#[test]
fn the_defaults_that_people_are_told_are_those_that_hold() {
    for option in all().filter(|option| option.has_flag && matches!(option.default, Shown::Of(_))) {
        let text = option.default_text().expect("a default");
        let text = text.split(';').next().unwrap_or_default();
        let told = configured(option, &[(Source::Flag, text)]);
        assert_eq!(told, configured(option, &[]), "{}", option.name);
    }
}

/// Makes a setting what it cannot be; the time is longer than any may be.
type Break = fn(&mut Settings, Duration);

#[test]
fn each_setting_that_the_library_refuses_is_a_flag_here() {
    let year = Duration::from_hours(367 * 24);
    let broken: [(&str, Break); 13] = [
        ("--queue", |it, _| it.queue.clear()),
        ("--concurrency", |it, _| it.concurrency = 0),
        ("--lease", |it, year| it.lease = year),
        ("--interval", |it, year| it.interval = year),
        ("--interval", |it, _| it.interval = Duration::from_nanos(1)),
        ("--batch", |it, _| it.batch = Some(0)),
        ("--max-backlog", |it, _| it.backlog_max = 0),
        ("--max-deliveries", |it, _| it.deliveries_max = 0),
        ("--max-errors", |it, _| it.errors_max = Some(0)),
        ("--retries", |it, _| it.retries = 1001),
        ("--backoff", |it, year| it.backoff = year),
        ("--timeout", |it, _| it.timeout = Some(Duration::ZERO)),
        ("--messages", |it, _| it.messages = Some(u64::MAX)),
    ];
    for (flag, break_it) in broken {
        let mut settings = Settings::default();
        break_it(&mut settings, year);
        let error = settings.check().expect_err("is refused");
        assert!(!error.to_string().contains("--"), "the library knows no flags: {error}");
        assert!(
            explain(&error).starts_with(&format!("{flag}: must be ")),
            "{}",
            explain(&error)
        );
    }
    let names = Names {
        bell: String::new(),
        ..Names::default()
    };
    let said = explain(&names.check().expect_err("is refused"));
    assert_eq!(said, "key names: a key name must not be empty");
    let full = Error::Full {
        queue: "q".into(),
        most: 7,
    };
    assert!(explain(&full).ends_with("at most 7 messages may wait; push again later, or raise --max-backlog"));
    assert!(!full.to_string().contains("--"), "{full}");
}
