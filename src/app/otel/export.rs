//! Spans go to a collector by OTLP over HTTP, from a thread that nobody waits for. What it cannot take in time is dropped, and that is one line.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Runtime;

/// So much of an answer is read.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// As the specification has it.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The exporter that the environment describes.
pub(super) fn exporter(note: impl Fn(&str) + Send + Sync + 'static) -> Result<impl SpanExporter + 'static, String> {
    let client = Posting::new()?;
    // What is set in the environment counts before this, but for the protocol: another one is not built in.
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(Telling {
        exporter,
        note: Box::new(note),
        failed: AtomicBool::new(false),
    })
}

/// Whether the environment names a collector, and does not turn traces off.
pub(super) fn is_wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name: &str, wanted: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted));
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let named = is_set("OTEL_EXPORTER_OTLP_ENDPOINT") || is_set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let chosen = is("OTEL_TRACES_EXPORTER", "otlp");
    let other = is_set("OTEL_TRACES_EXPORTER") && !chosen;
    (named || chosen) && !other && !is("OTEL_SDK_DISABLED", "true")
}

fn timeout() -> Duration {
    let of = |name: &str| std::env::var(name).ok()?.trim().parse().ok().map(Duration::from_millis);
    let set = of("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT").or_else(|| of("OTEL_EXPORTER_OTLP_TIMEOUT"));
    set.unwrap_or(TIMEOUT_DEFAULT)
}

/// Says once that spans do not arrive, and once that they do again.
struct Telling<E> {
    exporter: E,
    note: Box<dyn Fn(&str) + Send + Sync>,
    failed: AtomicBool,
}

impl<E: std::fmt::Debug> std::fmt::Debug for Telling<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.exporter.fmt(f)
    }
}

impl<E: SpanExporter> SpanExporter for Telling<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        match &exported {
            Err(error) if !self.failed.swap(true, Ordering::Relaxed) => {
                (self.note)(&format!(
                    "traces do not arrive at their collector, and are dropped until they do: {error}"
                ));
            }
            Ok(()) if self.failed.swap(false, Ordering::Relaxed) => {
                (self.note)("traces arrive at their collector again");
            }
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Posts from the thread that exports, which has no runtime.
struct Posting {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Mutex<Runtime>,
    timeout: Duration,
}

impl std::fmt::Debug for Posting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Posting")
    }
}

impl Posting {
    fn new() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        let provider = rustls::crypto::ring::default_provider();
        // A machine without certificates can still post to a collector beside it.
        let connector = match HttpsConnectorBuilder::new().with_provider_and_native_roots(provider.clone()) {
            Ok(builder) => builder,
            Err(_) => HttpsConnectorBuilder::new().with_tls_config(
                rustls::ClientConfig::builder_with_provider(provider.into())
                    .with_safe_default_protocol_versions()
                    .map_err(|error| error.to_string())?
                    .with_root_certificates(rustls::RootCertStore::empty())
                    .with_no_client_auth(),
            ),
        };
        let connector = connector.https_or_http().enable_http1().wrap_connector(plain);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            runtime: Mutex::new(runtime.map_err(|error| error.to_string())?),
            timeout: timeout(),
        })
    }

    fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let post = async {
            let (head, body) = self.client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let post = async {
            let late = |_| Err(format!("no answer within {:?}", self.timeout).into());
            tokio::time::timeout(self.timeout, post).await.unwrap_or_else(late)
        };
        let runtime = self.runtime.lock().map_err(|_| "an export has crashed")?;
        runtime.block_on(post)
    }
}

impl HttpClient for Posting {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.post(request) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_made_where_a_collector_is_named_and_nobody_turns_them_off() {
        let wanted = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set
                .iter()
                .map(|(name, value)| (format!("OTEL_{name}"), (*value).into()))
                .collect();
            is_wanted(|name| {
                set.iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, value)| value.clone())
            })
        };
        let endpoint = ("EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        assert!(!wanted(&[]));
        assert!(wanted(&[endpoint]) && wanted(&[("TRACES_EXPORTER", "otlp")]));
        assert!(wanted(&[(
            "EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://localhost:4318/v1/traces"
        )]));
        assert!(!wanted(&[endpoint, ("SDK_DISABLED", "TRUE")]));
        assert!(!wanted(&[endpoint, ("TRACES_EXPORTER", "none")]));
        assert!(!wanted(&[("EXPORTER_OTLP_ENDPOINT", "")]));
    }
}
