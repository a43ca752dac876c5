//! How messages are handled.

use super::{Group, Opt, Scope, Takes, time};
use crate::app::args::program::Program;
use crate::app::args::value::{self, Handling};

const GROUP: Group = Group {
    title: "Handling",
    scope: Scope::Start,
};

options! {
    CONCURRENCY = Opt::text(GROUP, "concurrency", Takes::Value("N"), set!(settings.concurrency, value::whole::<u32>))
        .short('c')
        .env(&["QUEENRIGHT_CONCURRENCY"])
        .default(|to| to.settings.concurrency.to_string())
        .setting("concurrency")
        .help("How many messages to handle at once");
    WORK = Opt::text(GROUP, "work", Takes::Value("LOW..HIGH"), set!(work, value::work))
        .env(&["QUEENRIGHT_WORK"])
        .default(|to| format!("{}..{}", time(to.work.low), time(to.work.high)))
        .help("How long the built-in handler, which only waits, takes for a message: a random time in this range");
    ERROR_RATE = Opt::text(GROUP, "error-rate", Takes::Value("RATE"), set!(error_rate, value::rate))
        .env(&["QUEENRIGHT_ERROR_RATE"])
        .default(|to| to.error_rate.to_string())
        .help("Share of the messages that the built-in handler fails, from 0 to 1");
    HANDLE = Opt::text(GROUP, "handle", Takes::Value("COMMAND|URL"), set!(handle, value::handler))
        .excludes(&HANDLE_EACH)
        .env(&["QUEENRIGHT_HANDLE"])
        .default_words("the built-in handler")
        .help(
            "Let a command or an HTTP service handle the messages. COMMAND is started once and keeps running: it gets a JSON \
             line per message on stdin and answers each in order, with {\"ok\":true}, {\"error\":\"text\"} or \
             {\"retry\":\"text\",\"after\":\"5s\"}; -c says how many it has at once. URL gets a POST per message: 2xx is done, \
             429 and 503 are tried again later, all else is an error",
        );
    HANDLE_EACH = Opt::text(GROUP, "handle-each", Takes::Value("COMMAND"), |to, text| {
            to.handle = Handling::Each(Program::parse(text)?);
            Ok(())
        })
        .env(&["QUEENRIGHT_HANDLE_EACH"])
        .help(
            "Run a command for each message: the payload on stdin; QUEENRIGHT_NUMBER, _ATTEMPT, _FAILURES, _EPOCH and _QUEUE \
             in the environment. Exit code 0 is done, 75 is tried again later, all else is an error whose text is the end of \
             stderr",
        );
    TIMEOUT = Opt::text(GROUP, "timeout", Takes::Value("DURATION"), set!(settings.timeout, value::duration))
        .env(&["QUEENRIGHT_TIMEOUT"])
        .default_words("none")
        .setting("timeout")
        .help("Time limit for one message: then it has failed, and a command is killed");
    BATCH = Opt::text(GROUP, "batch", Takes::Value("N"), set!(settings.batch, value::whole::<u32>))
        .env(&["QUEENRIGHT_BATCH"])
        .default_words("follows the speed of the handler")
        .setting("batch")
        .help("Messages to fetch per call to the store");
    MAX_DELIVERIES = Opt::text(GROUP, "max-deliveries", Takes::Value("N"), set!(settings.deliveries_max, value::whole::<u16>))
        .env(&["QUEENRIGHT_MAX_DELIVERIES"])
        .default(|to| to.settings.deliveries_max.to_string())
        .setting("deliveries_max")
        .help("A message that was delivered this often and never finished, since its handlers died, becomes an error");
    MAX_ERRORS = Opt::text(GROUP, "max-errors", Takes::Value("N"), set!(settings.errors_max, value::whole::<u64>))
        .env(&["QUEENRIGHT_MAX_ERRORS"])
        .default_words("keep all")
        .setting("errors_max")
        .help("Keep at most this many failed messages (dead letters): those with the lowest numbers are removed, counted and logged");
    RETRIES = Opt::text(GROUP, "retries", Takes::Value("N"), set!(settings.retries, value::whole::<u16>))
        .env(&["QUEENRIGHT_RETRIES"])
        .default(|to| to.settings.retries.to_string())
        .setting("retries")
        .help("Retry a failed message this often before it becomes an error (dead letter)");
    BACKOFF = Opt::text(GROUP, "backoff", Takes::Value("DURATION"), set!(settings.backoff, value::duration))
        .env(&["QUEENRIGHT_BACKOFF"])
        .default(|to| time(to.settings.backoff))
        .setting("backoff")
        .help("Wait before the first retry; each further wait is twice as long, up to 10m");
    ALSO_HANDLE = Opt::text(GROUP, "also-handle", Takes::Nothing, set!(settings.also_handle, value::yes))
        .env(&["QUEENRIGHT_ALSO_HANDLE"])
        .help("Handle messages even while this copy is the generator: for a fleet of one");
}
