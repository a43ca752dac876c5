//! Where the demo plays: a directory of its own for the books, and for the queue unless another store is named.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use crate::app::args::sources::{self, Resolved};
use crate::app::args::{Command, Invocation};
use crate::app::exit::Failure;

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
            .map_err(|error| Failure::cannot(&format!("create {}", directory.display()), error))?;
        let mut asked = asked.clone();
        let mut flags = flags.clone();
        flags.directory.clone_from(&directory);
        asked.command = Command::Demo(flags);
        let shared = &mut asked.shared;
        // Only what stands on the command line: a demo must not run on a Redis that happens to be in the environment.
        let named = [&shared.url, &shared.host, &shared.port]
            .iter()
            .any(|flag| flag.is_some());
        if !named && shared.config.is_none() && shared.env.is_none() {
            shared.url = Some(format!("sqlite:{}", directory.join("queue.db").display()));
        } else if shared.queue.is_none() {
            shared.queue = Some(format!("demo-{}", random()));
        }
        let resolved = sources::of_this_process(&asked).map_err(|usage| Failure::usage(usage.to_string()));
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
