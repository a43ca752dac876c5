//! How messages are handled.

use super::{Group, Opt, Scope, Takes, time};
use crate::app::args::program::Program;
use crate::app::args::value::{self, Handling};

const GROUP: Group = Group::of("Handling", Scope::Start);

options! {
    CONCURRENCY = setting!("concurrency", Takes::Value("N"), concurrency, |text| value::within(text, u32::MAX))
        .short('c')
        .default(|to| to.settings.concurrency.to_string())
        .help("How many messages to handle at once");
    WORK = Opt::text(GROUP, "work", Takes::Value("LOW..HIGH"), set!(work, value::work))
        .default(|to| format!("{}..{}", time(to.work.low), time(to.work.high)))
        .help("How long the built-in handler, which only waits, takes for a message: a random time in this range");
    ERROR_RATE = Opt::text(GROUP, "error-rate", Takes::Value("RATE"), set!(error_rate, value::rate))
        .default(|to| to.error_rate.to_string())
        .help("Share of the messages that the built-in handler fails, from 0 to 1");
    HANDLE = Opt::text(GROUP, "handle", Takes::Value("COMMAND|URL"), set!(handle, value::handler))
        .excludes(&HANDLE_EACH)
        .default_words("the built-in handler")
        .help(
            "Let a command or an HTTP service handle the messages; such a copy generates only if it is told what or when. COMMAND is started and keeps running: it gets a JSON \
             line per message on stdin and answers each, with {\"ok\":true}, {\"error\":\"text\"} or \
             {\"retry\":\"text\",\"after\":\"5s\"}, in order or with its \"number\"; -c says how many are on their way at once. URL gets a POST per message: 2xx is done, \
             429 and 503 are tried again later, all else is an error",
        );
    HANDLE_EACH = Opt::text(GROUP, "handle-each", Takes::Value("COMMAND"), |to, text| {
            to.handle = Handling::Each(Program::parse(text)?);
            Ok(())
        })
        .help(
            "Run a command for each message: the payload on stdin; QUEENRIGHT_NUMBER, _DELIVERIES, _FAILURES, _EPOCH, _QUEUE \
             and _GROUP (if it has one) in the environment. Exit code 0 is done, 75 is tried again later, all else is an error whose text is the end of \
             stderr",
        );
    WORKERS = Opt::text(GROUP, "workers", Takes::Value("N"), |to, text| {
            let workers = value::within(text, u32::MAX)?;
            if !(1..=1000).contains(&workers) {
                return Err("must be 1 to 1000".into());
            }
            to.workers = Some(workers);
            Ok(())
        })
        .default_words("as many as there are cores, at most --concurrency")
        .help("How many processes of --handle COMMAND to run; without --concurrency, as many messages are handled at once");
    TIMEOUT = setting!("timeout", Takes::Value("DURATION"), timeout, value::duration)
        .default_words("none; 1m for --handle URL")
        .help("Time limit for one message: then it has failed, and a command is killed");
    BATCH = setting!("batch", Takes::Value("N"), batch, |text| value::within(text, u32::MAX))
        .default_words("follows the speed of the handler")
        .help("Messages to fetch per call to the store");
    MAX_DELIVERIES = setting!("max-deliveries", Takes::Value("N"), deliveries_max, |text| value::within(text, u16::MAX))
        .default(|to| to.settings.deliveries_max.to_string())
        .help("A message becomes an error when its handlers died this many times; the last of them had no other message in hand");
    GROUP_CONCURRENCY = setting!("group-concurrency", Takes::Value("N"), group_concurrency, |text| value::within(text, u32::MAX))
        .default(|to| to.settings.group_concurrency.to_string())
        .help("How many messages of one group the whole fleet may handle at once; with 1, in the order of their numbers. The copy that started last decides for all");
    GROUP_SKIP_RETRIES = setting!("group-skip-retries", Takes::Nothing, group_skip_retries, value::yes)
        .help("Let a group go on while a message of it waits to be tried again; otherwise it waits, too. The copy that started last decides for all");
    LIMIT = Opt::text(GROUP, "limit", Takes::Value("N/s"), |to, text| {
            to.settings.limits.get_or_insert_default().rate = value::limit(text)?;
            Ok(())
        })
        .setting("limits")
        .default_words("as `queenright limit` or another copy has set it")
        .help("How fast the whole fleet may take messages: 500/s, 30/m, 1000/h, 5/d or none. Each of the three limits sets all three: what is not given is not limited. The copy that started last decides for all");
    LIMIT_BURST = Opt::text(GROUP, "limit-burst", Takes::Value("N"), |to, text| {
            to.settings.limits.get_or_insert_default().burst = value::within(text, u32::MAX)?;
            Ok(())
        })
        .default_words("a tenth of a second's worth, and 1 at least")
        .help("How many messages --limit lets go at once after a time in which fewer were wanted");
    LIMIT_GROUP = Opt::text(GROUP, "limit-group", Takes::Value("N/s"), |to, text| {
            to.settings.limits.get_or_insert_default().group = value::limit(text)?;
            Ok(())
        })
        .default_words("none if --limit is given; else as it has been set")
        .help("How fast messages of one group may be taken, up to 1000/s; without --limit the fleet is not limited");
    MAX_ERRORS = setting!("max-errors", Takes::Value("N"), errors_max, value::whole::<u64>)
        .default_words("keep all")
        .help("Keep at most this many failed messages (dead letters): those with the lowest numbers are removed, counted and logged");
    RETRIES = setting!("retries", Takes::Value("N"), retries, |text| value::within(text, u16::MAX))
        .default(|to| to.settings.retries.to_string())
        .help("Retry a failed message this often before it becomes an error (dead letter)");
    BACKOFF = setting!("backoff", Takes::Value("DURATION"), backoff, value::duration)
        .default(|to| time(to.settings.backoff))
        .help("Wait before the first retry; each further wait is twice as long, up to 10m");
    ALSO_HANDLE = setting!("also-handle", Takes::Nothing, also_handle, value::yes)
        .help("Handle messages even while this copy is the generator: for a fleet of one");
}
