//! Files that hold further values, and the log.

use super::{Effect, Group, Opt, Scope, Takes};
use crate::app::args::value;

const FILES: Group = Group::of("Files", Scope::Every);
const LOGGING: Group = Group::of("Log", Scope::Every);

options! {
    ENV = Opt::new(FILES, "env", Takes::Maybe("FILE", ".env"), Effect::Source)
        .help("Read environment variables from a file (.env if none is named); the real environment wins");
    CONFIG = Opt::new(FILES, "config", Takes::Value("FILE"), Effect::Source)
        .by_variable()
        .help("Read options from a TOML file, under the names of these flags, or from a file in the five-line form");

    LOG = Opt::text(LOGGING, "log", Takes::Value("text|json"), set!(log, value::log))
        .default_words("text")
        .help("Format of the log lines on stderr");
    LOG_PAYLOAD = Opt::text(LOGGING, "log-payload", Takes::Value("BYTES"), set!(log_payload, |text| value::within(text, u32::MAX)))
        .default(|to| to.log_payload.to_string())
        .help("Log at most this many bytes of a payload; payload_bytes is the full length of one that is cut. 0 logs none");
    VERBOSE = Opt::new(LOGGING, "verbose", Takes::Nothing, Effect::Text(set!(verbose, value::yes)))
        .short('v')
        .help("Log the settings in use at the start, and each message when a handler starts on it");
    QUIET = Opt::text(LOGGING, "quiet", Takes::Nothing, set!(quiet, value::yes))
        .help("Suppress per-message log lines");
}
