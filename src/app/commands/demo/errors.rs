//! Reading the errors: `get-errors --json`, as a user would run it, in the background.

use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use crate::app::lab::copy;

/// The numbers of the errors, or why they could not be had.
pub(super) type ErrorsRead = Result<Vec<u64>, String>;

pub(super) fn read(program: &Path, connection: &[OsString]) -> Receiver<ErrorsRead> {
    let mut command = copy::get_errors(program);
    command.args(connection);
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let read = command.output().map_err(|error| error.to_string()).and_then(|output| {
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
            }
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(text.lines().filter_map(copy::number).collect())
        });
        // Nobody may be there to hear it any more.
        let _ = sender.send(read);
    });
    receiver
}
