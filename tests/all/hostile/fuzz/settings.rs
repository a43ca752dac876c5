//! URLs, variables and files of settings.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use queenright::app::args;
use queenright::app::args::sources::{Inputs, resolve};

/// Given beside the input: no line may ever show it.
const SECRET: &str = "Tr0ub4dor";

const WORDS: [&[u8]; 27] = [
    b"\0",
    b"redis://",
    b"rediss://",
    b"redis+unix:",
    b"unix:/",
    b"sqlite:",
    b"user:pass@",
    b"[::1]",
    b":6379",
    b"/0",
    b"?db=",
    b"?protocol=resp3",
    b"%41",
    b"REDIS_URL=",
    b"REDIS_HOST=",
    b"REDIS_PORT=",
    b"REDIS_DB=",
    b"QUEENRIGHT_",
    b"LEASE=",
    b"export ",
    b"'",
    b"\"",
    b"${",
    b"}",
    b"\n",
    b"[redis]\n",
    b"lease = \"2s\"\n",
];

/// The input is a URL, a file of variables, a configuration file and a list of variables, with zero bytes between.
#[test]
fn settings_are_understood_or_refused_in_one_harmless_line_without_the_password() {
    let parse = |arguments: &[&str]| args::parse(arguments.iter().copied()).expect("arguments of ours");
    let asked = [
        parse(&["queenright", "start", "--env=env", "--config=config"]),
        parse(&["queenright", "status", "--env=env"]),
        parse(&["queenright", "start"]),
    ];
    super::fuzz("settings", &WORDS, |input| {
        let mut parts = input.split(|&byte| byte == 0);
        let mut part = || parts.next().unwrap_or_default();
        let (url, env, config, variables) = (part(), part(), part(), part());
        let mut environment = BTreeMap::from([("REDIS_PASS".to_string(), SECRET.to_string())]);
        for line in String::from_utf8_lossy(variables).lines() {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            environment.insert(name.into(), value.into());
        }
        if !url.is_empty() {
            environment.insert("REDIS_URL".into(), String::from_utf8_lossy(url).into_owned());
        }
        let read = |path: &Path| {
            let bytes = if path == Path::new("env") { env } else { config };
            String::from_utf8(bytes.to_vec()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        };
        asked.each_ref().map(|asked| {
            let resolved = resolve(&Inputs {
                asked,
                environment: &environment,
                read: &read,
                beside: Some(Path::new("config.txt")),
            });
            match resolved {
                Ok(resolved) => {
                    resolved.settings.check().expect("what is accepted is sound");
                    assert!((0.0..=1.0).contains(&resolved.error_rate));
                    for shown in resolved.notes.iter().chain([&resolved.address]) {
                        assert!(!shown.contains(SECRET), "{shown}");
                    }
                    "accepted".to_string()
                }
                Err(usage) => {
                    let text = usage.to_string();
                    assert!(!text.is_empty());
                    assert!(!text.chars().any(char::is_control), "{text:?}");
                    assert!(!text.contains(SECRET), "{text}");
                    let plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
                    text.split(' ').filter(plain).take(3).collect()
                }
            }
        })
    });
}
