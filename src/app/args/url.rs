//! The address of a service that handles messages: `--handle http://…`.

use std::fmt;

use hyper::Uri;
use hyper::header::HeaderValue;

use crate::app::base64;

/// Where to post to. Shown without what may be secret: credentials, path and query.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub(in crate::app) uri: Uri,
    pub(in crate::app) authorization: Option<HeaderValue>,
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.uri.authority().map_or("", |place| place.as_str());
        write!(f, "{}://{place}", self.uri.scheme_str().unwrap_or_default())
    }
}

impl Url {
    /// Whether this is meant to be a URL rather than a command.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.split_once("://")
            .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric()))
    }

    /// The complaint never repeats the text, since a password may be inside.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "this is no URL: write http://host:port/path".to_string();
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err("a service is asked over http:// or https://".into());
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (credentials, host) = match rest[..end].rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, &rest[..end]),
        };
        let uri: Uri = format!("{scheme}://{host}{}", &rest[end..])
            .parse()
            .map_err(|_| wrong())?;
        let place = uri.authority().ok_or_else(wrong)?;
        let has_port = place.as_str() != place.host();
        if place.host().is_empty() || (has_port && place.port_u16().is_none()) {
            return Err(wrong());
        }
        let authorization = credentials.map(|credentials| {
            let mut value = HeaderValue::try_from(format!("Basic {}", base64::encode(&unescaped(credentials))))
                .expect("base64 is fit for a header");
            value.set_sensitive(true);
            value
        });
        Ok(Self { uri, authorization })
    }

    pub(in crate::app) fn is_https(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }
}

/// With `%40` as `@`: credentials in a URL are written so.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut out) = (text.as_bytes(), Vec::with_capacity(text.len()));
    while let [first, rest @ ..] = bytes {
        let hex = |at: usize| rest.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (first, hex(0), hex(1)) {
            out.extend(u8::try_from(high * 16 + low));
            bytes = &rest[2..];
        } else {
            out.push(*first);
            bytes = rest;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_become_a_header_and_are_never_shown() {
        let url = Url::parse("https://me:pass@word@host:8080/a?b=c").unwrap();
        assert_eq!(url.uri, "https://host:8080/a?b=c");
        assert!(!format!("{url:?}").contains("pass"));
        let authorization = url.authorization.unwrap();
        assert!(authorization.is_sensitive());
        assert_eq!(authorization, "Basic bWU6cGFzc0B3b3Jk");
        let escaped = Url::parse("HTTP://me:p%40ss%2@host/hook/secret?token=secret").unwrap();
        assert_eq!(escaped.authorization.as_ref().unwrap(), "Basic bWU6cEBzcyUy");
        assert_eq!(format!("{escaped:?}"), "http://host");
        assert_eq!(Url::parse("http://localhost").unwrap().authorization, None);
        for wrong in [
            "http://",
            "http:///path",
            "http://me:secret@",
            "http://a b",
            "http://h:port/",
            "ftp://h/secret",
        ] {
            let said = Url::parse(wrong).unwrap_err();
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
