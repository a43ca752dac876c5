//! Files that hold further values, and the log.

use super::{Effect, Group, Opt, Scope, Takes};
use crate::app::args::value;

const FILES: Group = Group {
    title: "Files",
    scope: Scope::Every,
};
const LOGGING: Group = Group {
    title: "Log",
    scope: Scope::Every,
};

/// The variable that names a configuration file. It is no option that such a file can hold.
const fn only_by_variable(mut option: Opt, variables: &'static [&'static str]) -> Opt {
    option.variables = variables;
    option
}

options! {
    ENV = Opt::new(FILES, "env", Takes::Maybe("FILE", ".env"), Effect::Source)
        .help("Read environment variables from a file (.env if none is named); the real environment wins");
    CONFIG = only_by_variable(Opt::new(FILES, "config", Takes::Value("FILE"), Effect::Source), &["QUEENRIGHT_CONFIG"])
        .help("Read options from a TOML file, under the names of these flags, or from a file in the five-line form");

    LOG = Opt::text(LOGGING, "log", Takes::Value("text|json"), set!(log, value::log))
        .env(&["QUEENRIGHT_LOG"])
        .default_words("text")
        .help("Format of the log lines on stderr");
    VERBOSE = Opt::text(LOGGING, "verbose", Takes::Count, set!(verbose, value::whole::<u8>))
        .short('v')
        .help("Log the settings in use at the start, and each message when a handler starts on it");
    QUIET = Opt::text(LOGGING, "quiet", Takes::Nothing, set!(quiet, value::yes))
        .env(&["QUEENRIGHT_QUIET"])
        .help("Suppress per-message log lines");
}
