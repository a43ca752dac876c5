//! Files that only their owner may read.

use std::fs::File;
#[cfg(feature = "tls")]
use std::fs::Metadata;
#[cfg(feature = "sqlite")]
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::MetadataExt;
#[cfg(feature = "sqlite")]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What all other users may do with a file.
#[cfg(feature = "tls")]
const OTHERS: u32 = 0o007;

/// Creates a file where there is none.
#[cfg(feature = "sqlite")]
pub fn create(path: &Path) -> io::Result<File> {
    new_file().create_new(true).open(path)
}

/// Opens a file to be written at its end, and creates it if there is none.
#[cfg(feature = "cli")]
pub fn append(path: &Path) -> io::Result<File> {
    refuse_link_of_others(path)?;
    new_file().create(true).append(true).open(path)
}

/// Opens a file that holds a secret.
#[cfg(feature = "tls")]
pub fn open_secret(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    // The file that was opened is looked at: a link that leads elsewhere a moment later changes nothing.
    if is_open_to_others(&file.metadata()?) {
        return Err(io::Error::other(format!(
            "every user of this machine may read or write it; run: chmod 600 {} (a mounted secret: mode 0440, and a group of this process)",
            path.display()
        )));
    }
    Ok(file)
}

/// The group is not meant: that is how services are given their secrets.
#[cfg(feature = "tls")]
pub fn is_open_to_others(file: &Metadata) -> bool {
    file.is_file() && file.mode() & OTHERS != 0
}

#[cfg(feature = "sqlite")]
fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// In a directory that all may write to, somebody else's link would lead what we write to wherever they like.
#[cfg(feature = "sqlite")]
pub fn refuse_link_of_others(path: &Path) -> io::Result<()> {
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    let trusted = [0, rustix::process::geteuid().as_raw()];
    if found.is_symlink() && !trusted.contains(&found.uid()) {
        return Err(io::Error::other(format!(
            "it is a symbolic link that another user (id {}) made",
            found.uid()
        )));
    }
    Ok(())
}
