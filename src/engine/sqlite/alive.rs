//! By what others see that a node is there: a file beside the database, locked for as long as its process lives. The kernel lets go of
//! the lock when the process dies.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::engine::{NodeId, Sights, private};

/// The files that this process has locked, and whom it has seen.
#[derive(Debug, Default)]
pub(super) struct Alive {
    held: Mutex<BTreeMap<NodeId, File>>,
    pub(super) sights: Sights,
}

impl Alive {
    /// Holds the file of a node, or lets go of it. Where files cannot be locked, leases do.
    pub(super) fn show(&self, database: &Path, node: &str, shows: bool) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !shows {
            if held.remove(node).is_some() {
                forget(database, node);
            }
            return;
        }
        let path = path(database, node);
        // Whoever has given the node up has removed its file.
        if held.contains_key(node) && path.exists() {
            return;
        }
        let _ = private::create(&path);
        // Whoever looks holds it for moments only.
        if let Ok(file) = OpenOptions::new().read(true).write(true).open(path)
            && file.lock().is_ok()
        {
            held.insert(node.into(), file);
        }
    }
}

/// Removes what a node has left.
pub(super) fn forget(database: &Path, node: &str) {
    let _ = std::fs::remove_file(path(database, node));
}

/// Whether a process holds the file of this node; if that cannot be told, one may.
pub(super) fn is_shown(database: &Path, node: &str) -> bool {
    match File::open(path(database, node)) {
        Ok(file) => matches!(
            file.try_lock_shared(),
            Err(TryLockError::WouldBlock | TryLockError::Error(_))
        ),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

fn path(database: &Path, node: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    // An id of ours has nothing that a path could be led astray by; another program may have written another one.
    let safe: String = node.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
    name.push(format!("-{safe}.alive"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_seen_for_as_long_as_its_file_is_held() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("queue.db");
        let (one, other) = (Alive::default(), Alive::default());
        assert!(!is_shown(&database, "a"));
        one.show(&database, "a", true);
        one.show(&database, "a", true);
        assert!(is_shown(&database, "a") && is_shown(&database, "a"));
        other.show(&database, "a", false);
        assert!(is_shown(&database, "a"), "it is not the other's");
        // As the kernel does when a process dies: the file stays, the lock does not.
        one.held.lock().expect("whole").clear();
        assert!(!is_shown(&database, "a"));
        assert!(path(&database, "a").exists());
        other.show(&database, "b", true);
        other.show(&database, "b", false);
        assert!(!path(&database, "b").exists());
    }

    #[test]
    fn the_file_is_beside_the_database_whatever_the_node_is_called() {
        let path = path(Path::new("/data/queue.db"), "../../etc/x y");
        assert_eq!(path, Path::new("/data/queue.db-etcxy.alive"));
    }
}
