//! The address of a service that handles messages.

use std::fmt;

use hyper::Uri;

/// Where to post to. Shown without what may be secret: credentials, path and query.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub(crate) uri: Uri,
    /// `user:password`, for basic authentication.
    pub(crate) credentials: Option<Vec<u8>>,
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
        Ok(Self {
            uri,
            credentials: credentials.map(unescaped),
        })
    }

    #[must_use]
    pub fn is_https(&self) -> bool {
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
    fn credentials_are_taken_out_and_never_shown() {
        let url = Url::parse("https://me:pass@word@host:8080/a?b=c").unwrap();
        assert_eq!(url.uri, "https://host:8080/a?b=c");
        assert!(!format!("{url:?}").contains("pass"));
        assert_eq!(url.credentials.unwrap(), b"me:pass@word");
        let escaped = Url::parse("HTTP://me:p%40ss%2@host/hook/secret?token=secret").unwrap();
        assert_eq!(escaped.credentials.as_ref().unwrap(), b"me:p@ss%2");
        assert_eq!(format!("{escaped:?}"), "http://host");
        assert_eq!(Url::parse("http://localhost").unwrap().credentials, None);
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
