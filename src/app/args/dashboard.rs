//! `dashboard`, and `--dashboard` of `start`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

/// Where the dashboard listens unless told otherwise.
pub const LISTEN: &str = "127.0.0.1:8077";

pub const AFTER: &str = "\
Whoever reaches the dashboard can push, requeue, delete, pause and hand over: so
only this machine reaches it, unless there is a token. Another address than a
loopback one needs --token-file or QUEENRIGHT_TOKEN, and should have TLS: with
--tls-cert and --tls-key, or a proxy in front (docs/dashboard.md). A browser asks
for the token once; programs send it as Authorization: Bearer.

The API is described at /api/v1/openapi.json.

A Redis that goes away is told on the page; the dashboard goes on. SIGTERM and
SIGINT end it.

Examples:
  queenright dashboard                       http://127.0.0.1:8077/
  queenright dashboard -q jobs --read-only   only to look
  queenright dashboard --listen 0.0.0.0:8077 --token-file token \\
    --tls-cert cert.pem --tls-key key.pem
  queenright start --dashboard               a copy that also serves it";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Dashboard {
    /// Where to serve it; port 0 takes any free one, and tells which
    #[arg(long, value_name = "ADDRESS:PORT", default_value = LISTEN, value_parser = place, help_heading = "Dashboard")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub serving: Serving,
}

/// How a dashboard is served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Serving {
    /// Ask for the token in this file; another address than a loopback one needs a token [env: QUEENRIGHT_TOKEN, the token
    /// itself]
    #[arg(long, value_name = "FILE", help_heading = "Dashboard")]
    pub token_file: Option<PathBuf>,
    /// Refuse all changes
    #[arg(long, help_heading = "Dashboard")]
    pub read_only: bool,
    /// Serve also under this name, which a proxy or a name server gives it; may be repeated
    #[arg(long, value_name = "NAME", help_heading = "Dashboard")]
    pub allow_host: Vec<String>,
    /// Serve with TLS: the certificate, and those that signed it, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Dashboard")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Dashboard")]
    pub tls_key: Option<PathBuf>,
}

impl Serving {
    /// These, and what only `before` has.
    pub(super) fn over(self, before: Self) -> Self {
        Self {
            token_file: self.token_file.or(before.token_file),
            read_only: self.read_only || before.read_only,
            allow_host: [before.allow_host, self.allow_host].concat(),
            tls_cert: self.tls_cert.or(before.tls_cert),
            tls_key: self.tls_key.or(before.tls_key),
        }
    }

    /// The flag that was given, if any was.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("token-file", self.token_file.is_some()),
            ("read-only", self.read_only),
            ("allow-host", !self.allow_host.is_empty()),
            ("tls-cert", self.tls_cert.is_some()),
            ("tls-key", self.tls_key.is_some()),
        ];
        given.into_iter().find_map(|(name, given)| given.then_some(name))
    }
}

/// An address with a port. Names are not looked up, but for the one that everybody types.
pub fn place(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into());
    }
    text.parse()
        .map_err(|_| format!("write an address and a port, as {LISTEN} or [::1]:8077"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_and_a_port() {
        for (text, wanted) in [
            ("127.0.0.1:8077", "127.0.0.1:8077"),
            ("[::1]:0", "[::1]:0"),
            ("localhost:80", "127.0.0.1:80"),
        ] {
            assert_eq!(place(text), Ok(wanted.parse().unwrap()));
        }
        for wrong in [
            "",
            "8077",
            ":8077",
            "127.0.0.1",
            "example.org:80",
            "localhost:",
            "127.0.0.1:99999",
        ] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
