//! `--tls-cert` and `--tls-key`.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::engine::private;

/// Says what is wrong, naming the file.
pub fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let certs = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("--tls-cert: cannot read {}: {error}", cert.display()))?;
    if certs.is_empty() {
        return Err(format!("--tls-cert: there is no certificate in {}", cert.display()));
    }
    let key = private::open_secret(key)
        .map_err(|error| error.to_string())
        .and_then(|file| PrivateKeyDer::from_pem_reader(file).map_err(|error| error.to_string()))
        .map_err(|why| format!("--tls-key: cannot read {}: {why}", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certs, key))
        .map_err(|error| format!("--tls-cert and --tls-key do not fit: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
