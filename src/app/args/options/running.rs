//! How one copy runs beside the others.

use super::{Effect, Group, Opt, Scope, Takes, time};
use crate::app::args::value;

const GROUP: Group = Group::of("Running", Scope::Start);

options! {
    PREFER = setting!("prefer", Takes::Value("generator|either|handler|never"), prefer, value::prefer)
        .default_words("either")
        .help(
            "Leader election. generator: take the role over from copies without this preference. handler: generate only while \
             no other copy can. never: do not even do that",
        );
    BURST = setting!("burst", Takes::Nothing, burst, value::yes)
        .help("Handle the messages that are queued now, and exit; never generate");
    LEASE = setting!("lease", Takes::Value("DURATION"), lease, value::duration)
        .default(|to| time(to.settings.lease))
        .help("How long a copy may be silent before it counts as dead, and others take over its messages");
    NO_WATCH = setting!("no-watch", Takes::Nothing, watch, value::no)
        .help(
            "Do not watch the connections of other copies: a killed copy is then noticed only when its lease has run out, like a \
             frozen one",
        );
    GRACE = setting!("grace", Takes::Value("DURATION"), grace, value::duration)
        .default(|to| time(to.settings.grace))
        .help("Graceful shutdown: how long to finish the messages in hand after SIGTERM or SIGINT");
    PASS_ENV = Opt::new(GROUP, "pass-env", Takes::Several("NAME"), Effect::Verbatim(|to, text| to.pass_env.push(text.into())))
        .help(
            "Let commands that handle or generate have this variable. Without it they get none that begins with REDIS or \
             QUEENRIGHT_TOKEN: address, user and password of the store, and the token; may be repeated",
        );
    METRICS = Opt::text(GROUP, "metrics", Takes::Value("HOST:PORT"), set!(metrics, value::place))
        .default_words("off")
        .help(
            "Serve /metrics for Prometheus, and /healthz and /readyz, at HOST:PORT (127.0.0.1:9464, 0.0.0.0:9464); figures only, \
             no payloads",
        );
    NO_WAIT = Opt::text(GROUP, "no-wait", Takes::Nothing, set!(no_wait, value::yes))
        .help("Exit with code 69 if the store cannot be reached or takes no writes at the start, instead of waiting for it");
}
