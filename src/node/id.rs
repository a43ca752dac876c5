//! Random names of nodes, of readers and of calls.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::mutants;

/// The id of a node.
pub(crate) fn new_node_id() -> String {
    mutants::next_id().unwrap_or_else(new_id)
}

/// 50 random bits in letters and digits that are easy to read. They are the system's: two machines that started in the same
/// moment do not draw the same.
pub(crate) fn new_id() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bits = system();
    let letter = |_| {
        let at = if mutants::is_seeded() {
            fastrand::usize(..32)
        } else {
            usize::from(bits.to_le_bytes()[0] % 32)
        };
        bits >>= 5;
        char::from(ALPHABET[at])
    };
    (0..10).map(letter).collect()
}

/// From the kernel, anew for each id; or, where it has none to give, what the standard library had from it.
fn system() -> u64 {
    getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_start_alike_have_different_ids() {
        let draw = || {
            fastrand::seed(7);
            new_id()
        };
        let (one, other) = (draw(), draw());
        assert_ne!(one, other);
        assert_eq!((one.len(), other.len()), (10, 10));
    }
}
