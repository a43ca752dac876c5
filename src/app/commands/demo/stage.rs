//! Where the demo plays: a directory of its own for the books, and for the queue unless another store is named.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use super::{Failure, failed};
use crate::app::args::options::connection::{HOST_NAME, PORT_NUMBER, QUEUE, URL};
use crate::app::args::options::sources::{CONFIG, ENV};
use crate::app::args::sources::{self, Resolved};
use crate::app::args::{Command, Invocation};
use crate::app::commands::WRONG_USAGE;

/// Gone with its directory when it is dropped.
pub(crate) struct Stage {
    pub(crate) asked: Invocation,
    pub(crate) resolved: Resolved,
    directory: PathBuf,
}

impl Stage {
    /// None unless the demo was asked for.
    pub(crate) fn set_for(asked: &Invocation) -> Result<Option<Self>, Failure> {
        let Command::Demo(flags) = &asked.command else {
            return Ok(None);
        };
        let name = format!("queenright-demo-{}", random());
        let directory = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(|error| failed(&format!("create {}", directory.display()), &error))?;
        let mut asked = asked.clone();
        let mut flags = flags.clone();
        flags.directory.clone_from(&directory);
        asked.command = Command::Demo(flags);
        let flags = &mut asked.flags;
        // Only what stands on the command line: a demo must not run on a Redis that happens to be in the environment.
        let naming = [&URL, &HOST_NAME, &PORT_NUMBER, &CONFIG, &ENV];
        if !naming.iter().any(|option| flags.has(option)) {
            flags.set(&URL, format!("sqlite:{}", directory.join("queue.db").display()));
        } else if !flags.has(&QUEUE) {
            flags.set(&QUEUE, format!("demo-{}", random()));
        }
        let resolved = sources::of_this_process(&asked).map_err(|usage| Failure {
            line: usage.to_string(),
            code: WRONG_USAGE,
        });
        resolved.map(|resolved| {
            Some(Self {
                asked,
                resolved,
                directory,
            })
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn random() -> String {
    (0..6).map(|_| fastrand::lowercase()).collect()
}
