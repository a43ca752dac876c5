//! TLS to the server: whom it trusts, and as whom it connects.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redis::RedisResult;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys, RootCertStore};
use tokio_rustls::TlsConnector;

use super::place::Tls;
use super::refusal::{FIRST_VERSION, UNUSABLE};
use crate::engine::private::open_secret;

/// For a connection to this host.
pub(super) fn connector(host: &str, tls: &Tls) -> RedisResult<(ServerName<'static>, TlsConnector)> {
    let name = tls.sni.as_deref().unwrap_or(host);
    let name = ServerName::try_from(name).map_err(|_| io::Error::other(format!("{name:?} is no name for TLS")))?;
    Ok((name.to_owned(), Arc::new(config(tls)?).into()))
}

/// Says what is wrong, naming the file.
fn config(tls: &Tls) -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder().with_root_certificates(trusted(tls.ca.as_deref())?);
    let Some(cert) = &tls.cert else {
        return Ok(builder.with_no_client_auth());
    };
    let certs = certificates(cert)?;
    let key = tls.key.as_ref().unwrap_or(cert);
    let private = PrivateKeyDer::from_pem_reader(open_secret(key).map_err(|error| unreadable(key, &error))?);
    let private = private.map_err(|error| unreadable(key, &error))?;
    let private = builder.crypto_provider().key_provider.load_private_key(private);
    let own = CertifiedKey::new(certs, private.map_err(|error| unreadable(key, &error))?);
    match own.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        // One of the first version, as openssl makes them unless it is told otherwise, cannot be read here. Only the server must.
        Err(error) if error.to_string().contains(FIRST_VERSION) => {}
        Err(error) => return Err(unreadable(cert, &format!("its key does not fit: {error}"))),
    }
    Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))))
}

/// The authorities of a file, or those that this system trusts.
fn trusted(ca: Option<&Path>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let certs = if let Some(ca) = ca {
        certificates(ca)?
    } else {
        let mut found = rustls_native_certs::load_native_certs();
        match found.errors.pop() {
            Some(error) if found.certs.is_empty() => return Err(io::Error::other(error)),
            _ => found.certs,
        }
    };
    // Of the system's, one that cannot be read is no reason to trust none; of ours it is.
    let (_, unread) = roots.add_parsable_certificates(certs);
    match ca {
        Some(ca) if unread > 0 => Err(unreadable(ca, &"a certificate in it is damaged")),
        _ => Ok(roots),
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let certs: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(file).collect();
    match certs {
        Ok(certs) if certs.is_empty() => Err(unreadable(path, &"there is no certificate in it")),
        Ok(certs) => Ok(certs),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{UNUSABLE}{}: {why}", path.display()))
}
