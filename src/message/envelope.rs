//! What stands before the payload of a message that has more than one: its group, its headers, how long it may wait.
//!
//! Little-endian: length of the group u8, the group, length of the attributes u16, the attributes. These are a MessagePack map, of which whoever
//! does not know an entry skips it and those behind it: `a`, its pusher asks for its outcome (always the first: scripts look there), `e`, in how many
//! milliseconds after its publication the message expires, `h`, a map of its headers.

use super::Headers;

/// The longest name of a group.
pub const GROUP_BYTES_MAX: usize = 200;

/// What a message carries besides its payload. Most carry nothing, and have no envelope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Messages of one group are handled one at a time and in the order of their numbers.
    pub group: Option<String>,
    /// Its pusher asks for its outcome, which is kept for a while.
    pub asked: bool,
    /// The message is an error if its handling has not begun so long after its publication.
    pub expires_ms: Option<u64>,
    pub headers: Headers,
}

impl Envelope {
    /// Of a message that belongs to this group, or to none.
    #[must_use]
    pub fn of_group(group: Option<&str>) -> Self {
        Self {
            group: group.map(str::to_string),
            ..Self::default()
        }
    }

    /// Whether there is nothing in it: then the message is stored without one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.group.is_none() && !self.asked && self.expires_ms.is_none() && self.headers.is_empty()
    }

    /// As it is stored; nothing, if there is nothing in it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let group = self.group.as_deref().unwrap_or_default();
        let attributes = self.attributes();
        let mut out = Vec::with_capacity(group.len() + 3 + attributes.len());
        out.push(u8::try_from(group.len()).expect("at most GROUP_BYTES_MAX"));
        out.extend_from_slice(group.as_bytes());
        let length = u16::try_from(attributes.len()).expect("at most HEADERS_BYTES_MAX, and a little");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&attributes);
        out
    }

    fn attributes(&self) -> Vec<u8> {
        let all = [self.asked, self.expires_ms.is_some(), !self.headers.is_empty()];
        let count = all.map(u32::from).iter().sum();
        let mut out = Vec::new();
        if count == 0 {
            return out;
        }
        // Writing to a Vec cannot fail.
        let _ = rmp::encode::write_map_len(&mut out, count);
        if self.asked {
            let _ = rmp::encode::write_str(&mut out, "a");
            let _ = rmp::encode::write_uint(&mut out, 1);
        }
        if let Some(expires_ms) = self.expires_ms {
            let _ = rmp::encode::write_str(&mut out, "e");
            let _ = rmp::encode::write_uint(&mut out, expires_ms);
        }
        if !self.headers.is_empty() {
            let _ = rmp::encode::write_str(&mut out, "h");
            let _ = rmp::encode::write_map_len(&mut out, u32::try_from(self.headers.len()).unwrap_or(u32::MAX));
            for (name, value) in self.headers.iter() {
                let _ = rmp::encode::write_str(&mut out, name);
                let _ = rmp::encode::write_str(&mut out, value);
            }
        }
        out
    }

    /// The envelope of a message, and how many bytes it has; nothing, if these bytes do not begin with one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let (group, attributes, end) = split(bytes)?;
        let group = str::from_utf8(group).ok().filter(|group| is_group(group))?;
        let mut envelope = Self::of_group(Some(group).filter(|group| !group.is_empty()));
        // What cannot be read ends it: what was read before counts.
        let _ = envelope.read(attributes);
        Some((envelope, end))
    }

    fn read(&mut self, mut bytes: &[u8]) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        for _ in 0..rmp::decode::read_map_len(&mut bytes).ok()? {
            match text(&mut bytes)? {
                "a" => self.asked = rmp::decode::read_int::<u64, _>(&mut bytes).ok()? > 0,
                "e" => self.expires_ms = Some(rmp::decode::read_int(&mut bytes).ok()?),
                "h" => {
                    let mut headers = Headers::new();
                    for _ in 0..rmp::decode::read_map_len(&mut bytes).ok()? {
                        headers.insert(text(&mut bytes)?, text(&mut bytes)?);
                    }
                    if headers.wrong().is_none() {
                        self.headers = headers;
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }
}

/// A text of MessagePack.
fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let (text, rest) = rmp::decode::read_str_from_slice(*bytes).ok()?;
    *bytes = rest;
    Some(text)
}

/// The envelope of a message, if it has one. Most have none, and pay for one look when it is copied and one when it is dropped: the rest is
/// not where they pass by.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sealed(Option<Box<Envelope>>);

impl Sealed {
    /// What is in it.
    #[must_use]
    #[inline]
    pub fn open(&self) -> Option<&Envelope> {
        self.0.as_deref()
    }

    #[cold]
    #[inline(never)]
    fn copy(&self) -> Self {
        Self(self.0.clone())
    }
}

impl From<Envelope> for Sealed {
    fn from(envelope: Envelope) -> Self {
        Self((!envelope.is_empty()).then(|| Box::new(envelope)))
    }
}

impl Clone for Sealed {
    #[inline]
    fn clone(&self) -> Self {
        if self.0.is_some() { self.copy() } else { Self(None) }
    }
}

impl Drop for Sealed {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() {
            discard(self.0.take());
        }
    }
}

#[cold]
#[inline(never)]
fn discard(envelope: Option<Box<Envelope>>) {
    drop(envelope);
}

/// Whether a group may have this name; the empty one stands for no group.
fn is_group(name: &str) -> bool {
    name.len() <= GROUP_BYTES_MAX && !name.contains('\0')
}

/// Why a group cannot have this name.
#[must_use]
pub fn wrong_group(name: &str) -> Option<String> {
    (name.is_empty() || !is_group(name)).then(|| format!("must be 1 to {GROUP_BYTES_MAX} bytes without a NUL"))
}

/// The group, the attributes, and where the payload begins.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let (length, rest) = bytes.split_first()?;
    let (group, rest) = rest.split_at_checked(usize::from(*length))?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let attributes = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
    Some((group, attributes, 1 + group.len() + 2 + attributes.len()))
}

/// The group, of a message whose envelope was looked at before.
#[inline]
pub(super) fn group(bytes: &[u8]) -> Option<&str> {
    let (group, ..) = split(bytes)?;
    str::from_utf8(group).ok().filter(|group| !group.is_empty())
}

/// Whether the outcome is asked for, of a message whose envelope was looked at before: as scripts see it, by its first attribute.
pub(super) fn is_asked(bytes: &[u8]) -> bool {
    split(bytes).is_some_and(|(_, attributes, _)| attributes.get(1..3) == Some(b"\xa1a"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Envelope {
        Envelope {
            group: Some("kunde 17 ü".into()),
            asked: true,
            expires_ms: Some(600_000),
            headers: [("traceparent", "00-0af7-01"), ("tenant", "ü")].into_iter().collect(),
        }
    }

    #[test]
    fn an_envelope_survives_the_round_trip_and_is_refused_where_it_is_cut_off() {
        let without_group = Envelope { group: None, ..full() };
        let expires = Envelope {
            expires_ms: Some(7),
            ..Envelope::default()
        };
        let asked = Envelope {
            asked: true,
            ..Envelope::default()
        };
        for envelope in [Envelope::of_group(Some("g")), full(), without_group, expires, asked] {
            let mut bytes = envelope.encode();
            assert_eq!(is_asked(&bytes), envelope.asked);
            for end in 0..bytes.len() {
                assert_eq!(Envelope::decode(&bytes[..end]), None, "{end}");
            }
            bytes.extend_from_slice(b"payload");
            assert_eq!(Envelope::decode(&bytes), Some((envelope, bytes.len() - 7)));
        }
        assert_eq!(Envelope::decode(&[0, 0, 0, 1]), Some((Envelope::default(), 3)));
        assert!(Envelope::default().encode().is_empty());
    }

    #[test]
    fn attributes_that_are_not_known_are_skipped() {
        for attributes in [
            &[0x81, 0xc0][..],
            &[0x81, 0xa1, b'x', 1],
            &[0xc1],
            &[0x81, 0xa1, b'e', 0xa1, b'7'],
        ] {
            let length = u8::try_from(attributes.len()).expect("few");
            let bytes = [&[1, b'g', length, 0], attributes, b"p"].concat();
            let end = bytes.len() - 1;
            assert_eq!(Envelope::decode(&bytes), Some((Envelope::of_group(Some("g")), end)));
            assert_eq!(group(&bytes), Some("g"));
        }
    }

    #[test]
    fn a_group_is_text_without_a_nul_and_of_a_bounded_length() {
        for (name, fits) in [("g", true), ("", false), ("a\0b", false)] {
            assert_eq!(wrong_group(name).is_none(), fits, "{name:?}");
        }
        assert!(wrong_group(&"g".repeat(GROUP_BYTES_MAX)).is_none());
        assert!(wrong_group(&"g".repeat(GROUP_BYTES_MAX + 1)).is_some());
        assert_eq!(Envelope::decode(&[1, 0xff, 0, 0]), None);
        assert_eq!(Envelope::decode(&[1, 0, 0, 0]), None);
    }
}
