//! `offer`: the names of queues and nodes, for a shell that completes them.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::app::args::sources::{self, PasswordFrom, Resolved};
use crate::app::args::{Invocation, Name, Offer};
use crate::app::exit::{FAILED, Failure};
use crate::app::on_engine::{OnEngine, QueueAt};
use crate::app::queues::find;
use crate::app::run::print;
use crate::engine::{Engine, NodeStatus};

/// Who has pressed Tab waits no longer than this.
const TIME: Duration = Duration::from_millis(900);
/// After this no more keys are looked at, so that there is time to print the names.
const LOOK: Duration = Duration::from_millis(500);

struct Nodes;

impl OnEngine for Nodes {
    type Output = Vec<String>;

    /// Those that the crown can be handed to.
    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Vec<String>, Failure> {
        let status = engine.status().await?;
        let alive = status.nodes.into_iter().filter(NodeStatus::is_alive);
        let names = alive.map(|node| node.node);
        Ok(names.filter(|name| status.generator.as_ref() != Some(name)).collect())
    }
}

/// Never says what is wrong: it would be written over the line that somebody types.
pub(super) fn run(offer: &Offer) -> ExitCode {
    let Some((name, begin, asked)) = offer.wanted() else {
        return ExitCode::from(FAILED);
    };
    std::thread::spawn(|| {
        std::thread::sleep(TIME);
        std::process::exit(0)
    });
    let mut names = names(name, &asked).unwrap_or_default();
    names.retain(|name| name.starts_with(begin) && is_plain(name));
    // Nobody may be listening.
    let _ = print(&names.iter().fold(String::new(), |out, name| out + name + "\n"));
    ExitCode::SUCCESS
}

fn names(name: Name, asked: &Invocation) -> Option<Vec<String>> {
    let resolved = sources::of_this_process(asked).ok()?;
    // Nothing is run for a line that nobody has sent off.
    if matches!(resolved.password, Some(PasswordFrom::Command(_))) {
        return None;
    }
    match name {
        Name::Queue => find(&resolved, LOOK).ok().map(|found| found.names),
        Name::Node => nodes(&resolved),
    }
}

fn nodes(resolved: &Resolved) -> Option<Vec<String>> {
    QueueAt::of(resolved, TIME).looking(true).run(Nodes).ok()
}

/// No shell sees anything in these letters. Other names would have to be quoted, for each shell in its way.
fn is_plain(name: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
    !name.starts_with('-') && name.bytes().all(plain)
}
