//! `cancel`: ends messages as errors before anybody handles them, and tells handlers that are at work with them.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::check_queue;
use crate::api::cancel::{cancel, cancel_group};
use crate::app::args::Cancel;
use crate::app::exit::Failure;
use crate::app::output::cancelled::word;
use crate::app::output::json;
use crate::app::output::screen::counted;
use crate::app::run::print;
use crate::engine::{CANCELLED_GROUPS_MAX, CANCELS_MAX, Cancelled, CancelledGroup, Engine};
use crate::message::wrong_group;
use crate::node::event::escape;

pub(super) async fn run<E: Engine>(engine: Arc<E>, flags: &Cancel) -> Result<(), Failure> {
    if flags.numbers.len() > CANCELS_MAX {
        return Err(Failure::usage(format!(
            "at most {CANCELS_MAX} messages are cancelled at once"
        )));
    }
    check_queue(&engine).await?;
    if let Some(group) = &flags.group {
        return of_group(&*engine, group, flags.json).await;
    }
    let answers = cancel(&*engine, &flags.numbers).await?;
    let (mut lines, mut wrong) = (String::new(), Vec::new());
    for (number, answer) in flags.numbers.iter().zip(answers) {
        let word = word(answer);
        if flags.json {
            lines.push_str(&json::for_terminal(&json!({ "number": number, "state": word })));
            lines.push('\n');
        } else if answer == Cancelled::Asked {
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{number} {word}");
        }
        if let Some(why) = why(answer) {
            wrong.push(format!("message {number} {why}"));
        }
    }
    print(&lines)?;
    match &wrong[..] {
        [] => Ok(()),
        [one] => Err(Failure::failed(format!("{one}: it was not cancelled"))),
        [first, others @ ..] => Err(Failure::failed(format!(
            "{first}: it was not cancelled, nor {} of those named",
            counted(others.len() as u64, "other")
        ))),
    }
}

fn why(answer: Cancelled) -> Option<String> {
    match answer {
        Cancelled::Asked => None,
        Cancelled::Ended => Some("has ended".into()),
        Cancelled::Unpublished => Some("was never published".into()),
        Cancelled::TooMany => Some(format!("is one too many while {CANCELS_MAX} cancels are pending")),
    }
}

async fn of_group<E: Engine>(engine: &E, group: &str, as_json: bool) -> Result<(), Failure> {
    if let Some(why) = wrong_group(group) {
        return Err(Failure::usage(format!("--group {why}")));
    }
    let CancelledGroup::Asked { waiting } = cancel_group(engine, group).await? else {
        return Err(Failure::failed(format!(
            "{CANCELLED_GROUPS_MAX} groups are cancelled, and no more can be until messages of theirs have ended"
        )));
    };
    if as_json {
        let shown = json!({ "group": group, "state": "cancelled", "waiting": waiting });
        return print(&(json::for_terminal(&shown) + "\n"));
    }
    let waiting = counted(waiting, "message");
    let group = escape(group.as_bytes());
    print(&format!("group {group} is cancelled, {waiting} in its line\n"))
}
