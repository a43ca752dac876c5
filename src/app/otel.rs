//! Spans of what is published and handled, for OpenTelemetry: with the feature `otel`, and where the environment names a collector. Otherwise there
//! are none, and nothing is paid for them. A trace context in the headers of a message passes through either way.
//!
//! | file | |
//! | --- | --- |
//! | `spans` | what is a span, and what belongs to it |
//! | `ids` | spans of tries, whose ids can be told from each other's |
//! | `export` | OTLP over HTTP, which delays nobody |
//! | `none` | the same without the feature |

#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod ids;
#[cfg(not(feature = "otel"))]
mod none;
#[cfg(feature = "otel")]
mod spans;

#[cfg(not(feature = "otel"))]
pub use none::Traces;
#[cfg(feature = "otel")]
pub use spans::Traces;

use crate::message::Headers;

/// The trace context that whoever started this process left in its environment: so does `--handle-each`.
#[must_use]
pub fn inherited() -> Headers {
    let found = Headers::TRACE.into_iter().filter_map(|name| {
        let value = std::env::var(name.to_ascii_uppercase()).ok()?;
        Some((name, value)).filter(|(_, value)| !value.is_empty())
    });
    let headers: Headers = found.collect();
    // Nobody loses a message for what stands there.
    if headers.wrong().is_none() {
        headers
    } else {
        Headers::new()
    }
}
