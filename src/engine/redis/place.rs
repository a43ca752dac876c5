//! Where the server that keeps a queue is found, and how one is let in.

use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo};

/// A host, or the address of one, and a port.
pub type HostPort = (String, u16);

/// Where a queue is, and who asks for it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The server, or the first of those that are asked where it is; with the user, the password and the database there.
    pub info: ConnectionInfo,
    /// The others that are asked.
    pub others: Vec<HostPort>,
    pub via: Via,
    pub tls: Tls,
}

impl Place {
    /// A server at an address that is known.
    #[must_use]
    pub fn at(info: ConnectionInfo) -> Self {
        Self {
            info,
            others: Vec::new(),
            via: Via::Address,
            tls: Tls::default(),
        }
    }

    /// What must not be shown.
    #[cfg(feature = "cli")]
    pub(crate) fn passwords(&self) -> Vec<&str> {
        let sentinels = match &self.via {
            Via::Sentinel(sentinels) => sentinels.pass.as_deref(),
            _ => None,
        };
        self.info
            .redis_settings()
            .password()
            .into_iter()
            .chain(sentinels)
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn user_at_sentinels(&self) -> Option<&str> {
        match &self.via {
            Via::Sentinel(sentinels) => sentinels.user.as_deref(),
            _ => None,
        }
    }

    /// All that are asked, in the order in which they were named: none for a socket file.
    pub(super) fn seeds(&self) -> Vec<HostPort> {
        host_port(self.info.addr())
            .into_iter()
            .chain(self.others.iter().cloned())
            .collect()
    }

    /// The same user on another server.
    pub(super) fn elsewhere(&self, (host, port): &HostPort) -> ConnectionInfo {
        self.info
            .clone()
            .set_addr(addressed(host, *port, is_tls(self.info.addr())))
    }
}

/// How the server is found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Via {
    /// It is at its address. If that turns out to be a server of a cluster, its redirections are followed.
    #[default]
    Address,
    /// Sentinels say which server is the primary.
    Sentinel(Sentinels),
    /// A server of a cluster says which one has the queue.
    Cluster,
}

/// Who is asked for the primary, besides where.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sentinels {
    /// What they call it.
    pub name: String,
    pub user: Option<String>,
    pub pass: Option<String>,
    /// Whether they speak TLS; if nothing is said, as the servers do.
    pub tls: Option<bool>,
}

/// Without user and password: what is printed for debugging ends up in logs.
impl std::fmt::Debug for Sentinels {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Sentinels")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Whom TLS trusts, and as whom it connects. The files are read for each connection, so that they can be renewed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authorities that may have signed the server's certificate, as PEM, in the place of those that this system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate of the client and its key, as PEM. The key may stand in the certificate's file.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must have, if it is not its host name.
    pub sni: Option<String>,
}

pub(crate) fn addressed(host: &str, port: u16, tls: bool) -> ConnectionAddr {
    let host = host.to_string();
    if tls {
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
}

pub(super) fn is_tls(addr: &ConnectionAddr) -> bool {
    matches!(addr, ConnectionAddr::TcpTls { .. })
}

pub(super) fn host_port(addr: &ConnectionAddr) -> Option<HostPort> {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Some((host.clone(), *port)),
        _ => None,
    }
}

/// For people.
pub(crate) fn shown((host, port): &HostPort) -> String {
    // Version 6 of IP.
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
