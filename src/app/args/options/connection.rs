//! Which store, and which queue in it.

use super::{Effect, Group, Opt, Scope, Takes};
use crate::app::args::resolved::{HOST, PORT, Resolved, Shards};
use crate::app::args::value;

const GROUP: Group = Group::of("Connection", Scope::Every);

const fn part(name: &'static str, value: &'static str) -> Opt {
    Opt::new(GROUP, name, Takes::Value(value), Effect::Address)
}

/// A name of the queue's keys: only in a configuration file, since all nodes of a queue must have the same.
const fn key(name: &'static str, set: fn(&mut Resolved, &str)) -> Opt {
    Opt::new(GROUP, name, Takes::Value("NAME"), Effect::Verbatim(set))
        .setting("names")
        .in_file()
        .without_flag()
}

/// What `--shards` means without a number.
const RECORDED: &str = "recorded";

fn shards(to: &mut Resolved, text: &str) -> Result<(), String> {
    to.shards = if text == RECORDED {
        Shards::Recorded
    } else {
        to.settings.names.shards = value::whole(text)?;
        Shards::Given
    };
    Ok(())
}

options! {
    URL = Opt::new(GROUP, "url", Takes::Several("URL"), Effect::Address)
        .short('u')
        .env(&["REDIS_URL", "REDISURL"])
        .setting("url")
        .help("The store as a URL: redis://, rediss:// (TLS), redis+sentinel://host,host/name, redis+cluster://host,host, unix:/path or sqlite:/path; several are for --shards");
    HOST_NAME = part("host", "HOST")
        .short('h')
        .env(&["REDIS_HOST"])
        .default_words(HOST)
        .help("Redis host");
    PORT_NUMBER = part("port", "PORT")
        .short('p')
        .env(&["REDIS_PORT"])
        .default(|_| PORT.to_string())
        .help("Redis port");
    USER = part("user", "NAME")
        .env(&["REDIS_USER"])
        .help("Redis user, where Redis has several (ACL)");
    PASS = part("pass", "PASSWORD")
        .with_dash()
        .env(&["REDIS_PASS"])
        .help("Redis password; better in REDIS_PASS, since other users of the machine can see command lines");
    PASSWORD_FILE = part("password-file", "FILE")
        .env(&["REDIS_PASSWORD_FILE"])
        .help("Read the Redis password from this file, anew for each connection");
    PASSWORD_COMMAND = part("password-command", "COMMAND")
        .env(&["REDIS_PASSWORD_COMMAND"])
        .help("Run this for each connection to Redis: it prints the password, such as a token that expires");
    DB = part("db", "N")
        .env(&["REDIS_DB"])
        .default_words("0")
        .help("Redis database number");
    CA = part("ca", "FILE")
        .env(&["REDIS_CA"])
        .help("Trust the authorities in this file (PEM) for rediss://, in the place of those that the system trusts");
    CERT = part("cert", "FILE")
        .env(&["REDIS_CERT"])
        .help("Certificate to show to a Redis that asks for one (PEM)");
    CERT_KEY = part("cert-key", "FILE")
        .env(&["REDIS_CERT_KEY"])
        .default_words("the key in the file of --cert")
        .help("Private key of that certificate (PEM)");
    SNI = part("sni", "NAME")
        .env(&["REDIS_SNI"])
        .default_words("the host")
        .help("The name that the certificate of Redis must have");
    SENTINEL_USER = part("sentinel-user", "NAME")
        .env(&["REDIS_SENTINEL_USER"])
        .help("User at the sentinels, where they have users of their own");
    SENTINEL_PASS = part("sentinel-pass", "PASSWORD")
        .env(&["REDIS_SENTINEL_PASS"])
        .without_flag()
        .help("Password of the sentinels, if they ask for one");
    REPLICAS = setting!("replicas", Takes::Value("N"), replicas, value::whole::<u32>)
        .default(|to| to.settings.replicas.to_string())
        .help("Count a publish, a push or an outcome only when this many replicas of Redis have it (WAIT)");
    QUEUE = Opt::new(GROUP, "queue", Takes::Value("NAME"), Effect::Verbatim(|to, text| to.settings.queue = text.into()))
        .everywhere()
        .short('q')
        .default(|to| to.settings.queue.clone())
        .setting("queue")
        .help("Queue name; queues of different names share nothing");
    SHARDS = Opt::text(GROUP, "shards", Takes::Optional("N", RECORDED), shards)
        .setting("shards")
        .help("Spread a new queue over this many shards (1 if not given), on the servers of all --url in turn; queenright reshard changes it, and copies follow. Without a number: as many as the queue has, which commands that make no queue take by themselves");
    KEYS_ERRORS = key("keys.errors", |to, text| to.settings.names.errors = text.into())
        .default(|to| to.settings.names.errors.clone())
        .help("Name of the key that holds the failed messages");
    KEYS_BELL = key("keys.bell", |to, text| to.settings.names.bell = text.into())
        .default(|to| to.settings.names.bell.clone())
        .help("Name of the key that wakes handlers when messages arrive");
    KEYS_CROWN = key("keys.crown", |to, text| to.settings.names.crown = text.into())
        .default(|to| to.settings.names.crown.clone())
        .help("Name of the key that says who is the generator");
}
