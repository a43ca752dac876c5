//! Random names of nodes, of readers and of calls.

/// 50 random bits in letters and digits that are easy to read: no two processes ever have the same.
pub(crate) fn new_id() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    (0..10).map(|_| char::from(ALPHABET[fastrand::usize(..32)])).collect()
}
