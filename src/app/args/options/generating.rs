//! Which messages are generated, and when.
//!
//! Options take effect in the order in which they stand here: `tz` and `missed` change the schedule that `cron` has made, and
//! `generate-json` looks at what `generate` has chosen.

use super::{Group, Opt, Scope, Takes, time};
use crate::api::cron::{Cron, Missed};
use crate::app::args::program::Program;
use crate::app::args::resolved::Resolved;
use crate::app::args::value::{self, Generating};

const GROUP: Group = Group::of("Generating", Scope::Start);

/// The schedule that another option is about.
fn schedule(to: &mut Resolved) -> Result<&mut (Cron, Missed), String> {
    to.cron.as_mut().ok_or_else(|| "this needs --cron".into())
}

options! {
    INTERVAL = setting!("interval", Takes::Value("DURATION"), interval, value::duration)
        .default(|to| format!("{}; 0 for --generate COMMAND", time(to.settings.interval)))
        .help("Time between messages; 0 is as fast as possible");
    MESSAGES = setting!("messages", Takes::Value("N"), messages, value::whole::<u64>)
        .default_words("no end")
        .help("Generate only message numbers below this, over the whole fleet; the copies keep running");
    GENERATE = Opt::text(GROUP, "generate", Takes::Value("counter|text|tick|COMMAND|-"), set!(generate, value::generator))
        .excludes(&GENERATE_EACH)
        .with_dash()
        .default_words("counter")
        .help(
            "What to generate. counter: the message number as text, from 0. text: random words with epoch and number. tick: the \
             time at which the message was due. Or a command that keeps running: each line that it prints is a message. It is \
             started when this copy becomes the generator, told where to go on (QUEENRIGHT_NUMBER, _EPOCH, _CURSOR: the last \
             message), and stopped when another copy takes over. Or -: the lines of stdin",
        );
    GENERATE_EACH = Opt::text(GROUP, "generate-each", Takes::Value("COMMAND"), |to, text| {
            to.generate = Generating::Each(Program::parse(text)?);
            Ok(())
        })
        .help("Run a command each time a message is due: what it prints is the message; if it prints nothing, there is none");
    GENERATE_JSON = Opt::text(GROUP, "generate-json", Takes::Nothing, |to, text| {
            to.generate_json = value::yes(text)?;
            match to.generate {
                Generating::Builtin(_) if to.generate_json => {
                    Err("this is about what a command prints: give one with --generate or --generate-each".into())
                }
                _ => Ok(()),
            }
        })
        .help(
            "The command prints {\"payload\":…,\"cursor\":…}; the cursor is stored with the message, and the next command gets \
             it as QUEENRIGHT_CURSOR",
        );
    CRON = Opt::text(GROUP, "cron", Takes::Value("'*/5 * * * *'"), |to, text| {
            to.cron = Some((Cron::new(text, "UTC")?, Missed::default()));
            Ok(())
        })
        .excludes(&INTERVAL)
        .help("Generate on a cron schedule instead of an interval: minute hour day month weekday, or with seconds in front");
    TZ = Opt::text(GROUP, "tz", Takes::Value("Europe/Berlin"), |to, text| {
            Cron::zone(text)?;
            let (cron, _) = schedule(to)?;
            *cron = cron.clone().in_zone(text)?;
            Ok(())
        })
        .default_words("UTC")
        .help("Time zone of --cron");
    MISSED = Opt::text(GROUP, "missed", Takes::Value("once|skip"), |to, text| {
            let missed = value::missed(text)?;
            schedule(to)?.1 = missed;
            Ok(())
        })
        .default_words("once")
        .help("If times of --cron passed while no copy ran: once generates the latest of them, skip generates none");
    MAX_BACKLOG = setting!("max-backlog", Takes::Value("N"), backlog_max, value::whole::<u64>)
        .also("push")
        .default(|to| to.settings.backlog_max.to_string())
        .help("Backpressure: while this many messages are queued, the generator waits and pushes fail");
}
