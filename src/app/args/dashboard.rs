//! `dashboard`. How it is served stands in the table of options, since `start --dashboard` takes it too.

use std::net::SocketAddr;

use clap::Args;

use super::value::{LISTEN, listen};

pub(super) const AFTER: &str = "\
Whoever can reach the dashboard can push, requeue, delete, pause and hand over.
So it is served to this machine only, unless there is a token: an address other
than loopback needs --token-file or QUEENRIGHT_TOKEN, and should have TLS, with
--tls-cert and --tls-key or a proxy in front (docs/dashboard.md). A browser
asks for the token once; programs send it as Authorization: Bearer.

The API is described at /api/v1/openapi.json.

When the store goes away, the page says so and the dashboard goes on. SIGTERM
and SIGINT end it.

Examples:
  queenright dashboard                       http://127.0.0.1:8077/
  queenright dashboard -q jobs --read-only   only to look
  queenright dashboard --all-queues          all queues of this store
  queenright dashboard --listen 0.0.0.0:8077 --token-file token \\
    --tls-cert cert.pem --tls-key key.pem
  queenright start --dashboard               a copy that also serves it";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Dashboard {
    /// Where to serve it; port 0 takes any free one, which is logged
    #[arg(long, value_name = "ADDRESS:PORT", default_value = LISTEN, value_parser = listen, help_heading = "Dashboard")]
    pub listen: SocketAddr,
    /// Let the page switch between all queues of the store; who has a token may then do the same with all of them
    #[arg(long, help_heading = "Dashboard")]
    pub all_queues: bool,
}
