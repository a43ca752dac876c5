//! What the browser gets: embedded, so that one file is the whole program and works without a network.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};

use super::reply::{Reply, whole};

macro_rules! files {
    ($($path:literal $file:literal $kind:literal;)+) => {
        /// The file at a path.
        pub(super) fn find(path: &str) -> Option<Reply> {
            let (kind, bytes): (&'static str, &'static [u8]) = match path {
                $($path => ($kind, include_bytes!(concat!("page/", $file))),)+
                _ => return None,
            };
            let mut reply = whole(StatusCode::OK, kind, Bytes::from_static(bytes));
            // Another version of the program may answer next time.
            reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            Some(reply)
        }
    };
}

files! {
    "/" "index.html" "text/html; charset=utf-8";
    "/app.css" "app.css" "text/css; charset=utf-8";
    "/app.js" "app.js" "text/javascript; charset=utf-8";
    "/dom.js" "dom.js" "text/javascript; charset=utf-8";
    "/chart.js" "chart.js" "text/javascript; charset=utf-8";
    "/overview.js" "overview.js" "text/javascript; charset=utf-8";
    "/errors.js" "errors.js" "text/javascript; charset=utf-8";
    "/actions.js" "actions.js" "text/javascript; charset=utf-8";
    "/favicon.svg" "favicon.svg" "image/svg+xml";
}
