//! How one copy runs beside the others.

use super::{Group, Opt, Scope, Takes, time};
use crate::app::args::value;

const GROUP: Group = Group {
    title: "Running",
    scope: Scope::Start,
};

options! {
    PREFER = Opt::text(GROUP, "prefer", Takes::Value("generator|either|handler|never"), set!(settings.prefer, value::prefer))
        .env(&["QUEENRIGHT_PREFER"])
        .default_words("either")
        .help(
            "Leader election. generator: take the role over from copies without this preference. handler: generate only while \
             no other copy can. never: do not even do that",
        );
    BURST = Opt::text(GROUP, "burst", Takes::Nothing, set!(settings.burst, value::yes))
        .env(&["QUEENRIGHT_BURST"])
        .help("Handle the messages that are queued now, and exit; never generate");
    LEASE = Opt::text(GROUP, "lease", Takes::Value("DURATION"), set!(settings.lease, value::duration))
        .env(&["QUEENRIGHT_LEASE"])
        .default(|to| time(to.settings.lease))
        .setting("lease")
        .help("How long a copy may be silent before it counts as dead, and others take over its messages");
    GRACE = Opt::text(GROUP, "grace", Takes::Value("DURATION"), set!(settings.grace, value::duration))
        .env(&["QUEENRIGHT_GRACE"])
        .default(|to| time(to.settings.grace))
        .setting("grace")
        .help("Graceful shutdown: how long to finish the messages in hand after SIGTERM or SIGINT");
    METRICS = Opt::text(GROUP, "metrics", Takes::Value("HOST:PORT"), set!(metrics, value::place))
        .env(&["QUEENRIGHT_METRICS"])
        .default_words("off")
        .help(
            "Serve /metrics for Prometheus, and /healthz and /readyz, at HOST:PORT (127.0.0.1:9464, 0.0.0.0:9464); figures only, \
             no payloads",
        );
    NO_WAIT = Opt::text(GROUP, "no-wait", Takes::Nothing, set!(no_wait, value::yes))
        .env(&["QUEENRIGHT_NO_WAIT"])
        .help("Exit with code 69 if the store cannot be reached at the start, instead of waiting for it");
}
