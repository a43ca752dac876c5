//! What stands before the payload of a message that has more than one: the group that it belongs to.
//!
//! Little-endian: length of the group u8, the group, length of the attributes u16, the attributes, a MessagePack map. There are no
//! attributes yet: headers or a time to live would be there, and whoever does not know one skips it.

/// The longest name of a group.
pub const GROUP_BYTES_MAX: usize = 200;

/// What a message carries besides its payload. Most carry nothing, and have no envelope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Messages of one group are handled one at a time and in the order of their numbers.
    pub group: Option<String>,
}

impl Envelope {
    /// Of a message that belongs to this group, or to none.
    #[must_use]
    pub fn of_group(group: Option<&str>) -> Self {
        Self {
            group: group.map(str::to_string),
        }
    }

    /// Whether there is nothing in it: then the message is stored without one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.group.is_none()
    }

    /// As it is stored; nothing, if there is nothing in it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let group = self.group.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(group.len() + 3);
        out.push(u8::try_from(group.len()).expect("at most GROUP_BYTES_MAX"));
        out.extend_from_slice(group.as_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out
    }

    /// The envelope of a message, and how many bytes it has; nothing, if these bytes do not begin with one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let (group, end) = split(bytes)?;
        let group = str::from_utf8(group).ok().filter(|group| is_group(group))?;
        Some((Self::of_group(Some(group).filter(|group| !group.is_empty())), end))
    }
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

/// The group, and where the payload begins.
fn split(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first()?;
    let (group, rest) = rest.split_at_checked(usize::from(*length))?;
    let (attributes, rest) = rest.split_first_chunk::<2>()?;
    let attributes = usize::from(u16::from_le_bytes(*attributes));
    (attributes <= rest.len()).then_some((group, 1 + group.len() + 2 + attributes))
}

/// The group, of a message whose envelope was looked at before.
#[inline]
pub(super) fn group(bytes: &[u8]) -> Option<&str> {
    let (group, _) = split(bytes)?;
    str::from_utf8(group).ok().filter(|group| !group.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_survives_the_round_trip_and_is_refused_where_it_is_cut_off() {
        let envelope = Envelope::of_group(Some("kunde 17 ü"));
        let mut bytes = envelope.encode();
        for end in 0..bytes.len() {
            assert_eq!(Envelope::decode(&bytes[..end]), None, "{end}");
        }
        bytes.extend_from_slice(b"payload");
        assert_eq!(Envelope::decode(&bytes), Some((envelope, bytes.len() - 7)));
        assert_eq!(Envelope::decode(&[0, 0, 0, 1]), Some((Envelope::default(), 3)));
        assert!(Envelope::default().encode().is_empty());
    }

    #[test]
    fn attributes_that_are_not_known_are_skipped() {
        let bytes = [1, b'g', 2, 0, 0x81, 0xc0, b'p'];
        assert_eq!(Envelope::decode(&bytes), Some((Envelope::of_group(Some("g")), 6)));
        assert_eq!(group(&bytes), Some("g"));
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
