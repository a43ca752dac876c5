//! `verify`: a fleet of real processes, every fault that we know, and a verdict that trusts nothing the system says of
//! itself.
//!
//! | file | |
//! | --- | --- |
//! | `plan` | which faults come when |
//! | `fleet` | copies, their proxies, readers of errors |
//! | `chaos`, `several` | do what the plan says, to one server and to several |
//! | `run` | from the first copy to the verdict |
//! | `sampler` | asks the store for its counts all the time |
//! | `pusher` | someone outside who pushes all the time |
//! | `effects` | the counters that handlers add to |
//! | `progress`, `report` | the line while it runs; the table, JSON, and what is kept for a bug report |
//!
//! Where it works is [`crate::app::lab::test_bed`], the verdict itself [`crate::app::lab::ledger::checks`].

mod chaos;
mod effects;
mod fleet;
mod plan;
mod progress;
mod pusher;
mod report;
mod run;
mod sampler;
mod several;
mod switched;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::app::args::options::connection::REPLICAS;
use crate::app::args::options::dashboard::DASHBOARD;
use crate::app::args::options::generating::{INTERVAL, MAX_BACKLOG, MESSAGES};
use crate::app::args::options::handling::{CONCURRENCY, ERROR_RATE, WORK};
use crate::app::args::options::lab::EFFECTS;
use crate::app::args::options::running::{METRICS, NO_WAIT};
use crate::app::args::options::{Opt, Scope};
use crate::app::args::sources::Resolved;
use crate::app::args::{Flags, Invocation, Several, Verify};
use crate::app::exit::{FAILED, Failure};
use crate::app::lab::server::Fsync;
use crate::app::lab::test_bed::{Directory, Own, TestBed, is_named, is_named_anywhere, refuse_queue};
use crate::app::lab::topology::Kind;
use crate::app::on_engine::{OnEngine, QueueAt};
use crate::engine::Engine;
use crate::settings::{Names, Settings};
use plan::{Plan, Reach};
use report::Report;
use run::{Load, Run};

const MESSAGES_DEFAULT: u64 = 1_000_000;
const DURATION: Duration = Duration::from_mins(1);
/// After this many leases without progress, with nothing broken any more, the run is given up.
const STALLED_LEASES: u32 = 15;
/// How long copies may take to stop, readers to end, and a store to answer.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) fn run(asked: &Invocation, resolved: Resolved, flags: &Verify) -> Result<ExitCode, Failure> {
    refuse_queue("verify", asked, "a queue of its own, which it removes")?;
    let mut bed = test_bed(asked, &resolved, flags)?;
    let shards = resolved.settings.names.shards as usize;
    bed.add_shards(shards, fsync(flags))?;
    if flags.chaos {
        bed.stand_before()
            .map_err(|error| Failure::cannot("stand before the server", error))?;
    }
    let mut settings = resolved.settings;
    settings.queue = bed.fresh_queue();
    if flags.chaos {
        bed.limit_copies(&settings.queue, &effects::prefix(&settings.queue))
            .map_err(|error| Failure::cannot("give the copies a user of their own", error))?;
    }
    settings.names = Names::default().of_shard(0, shards);

    let plan = flags.chaos.then(|| {
        let seed = flags.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
        Plan::new(seed, flags.duration.unwrap_or(DURATION), Reach::of(&bed, shards))
    });
    let messages = settings.messages.or((!flags.chaos).then_some(MESSAGES_DEFAULT));
    let leases = leases(settings.lease, flags.nodes, plan.as_ref());
    let longest = leases.iter().max().copied().unwrap_or(settings.lease);
    let load = Load {
        leases,
        arguments: arguments(&asked.flags, &settings.queue, flags.chaos, messages),
        queue: settings.queue.clone(),
        messages,
        lease: settings.lease,
        settings: settings.clone(),
        stalled_after: STALLED_LEASES * longest + resolved.work.high,
        plan,
    };

    let (store, address, others) = (bed.store.clone(), bed.address.clone(), bed.others());
    let queue = QueueAt {
        store: &store,
        password: None,
        address: &address,
        others: &others,
        settings: &settings,
        answer_min: Duration::ZERO,
        only_looks: false,
        any_shards: false,
    };
    let report = queue.run(Verification { bed: &mut bed, load })?;
    if !report.findings.is_empty() {
        // Worth a bug report.
        bed.directory.is_kept = true;
    }
    let printed = report.keep_and_print(&bed.directory, flags.json);
    printed.map_err(|error| Failure::cannot("write the result", error))?;
    Ok(ExitCode::from(if report.findings.is_empty() { 0 } else { FAILED }))
}

struct Verification<'a> {
    bed: &'a mut TestBed,
    load: Load,
}

impl OnEngine for Verification<'_> {
    type Output = Report;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Report, Failure> {
        engine.check().await?;
        let run = Run::new(engine, self.bed, self.load);
        let mut run = run.map_err(|error| Failure::cannot("verify", error))?;
        run.work().await?;
        let seconds = run.drain().await?;
        run.judge(seconds).await
    }
}

fn test_bed(asked: &Invocation, resolved: &Resolved, flags: &Verify) -> Result<TestBed, Failure> {
    let mut directory = match &flags.keep {
        Some(path) => Directory::named("--keep", path)?,
        None => Directory::temporary("verify")?,
    };
    if flags.chaos {
        directory.is_kept = true;
    }
    let named = is_named_anywhere(asked).then_some(resolved);
    let fsync = fsync(flags);
    if let Some(several) = flags.on {
        if is_named(asked) {
            return Err(Failure::usage(
                "--on starts servers of its own; leave out --url, --host and --port",
            ));
        }
        let kind = match several {
            Several::Sentinel => Kind::Sentinel,
            Several::Cluster => Kind::Cluster,
        };
        // As many as must have what is told: one more could follow a primary that is none any more, and confirm it.
        let replicas = resolved.settings.replicas.max(1) as usize;
        return TestBed::several("verify", kind, replicas, directory, fsync);
    }
    TestBed::prepare("verify", named, directory, Own::ServerOrFile(fsync))
}

/// A server that is killed must not lose what it acknowledged.
fn fsync(flags: &Verify) -> Fsync {
    if flags.chaos { Fsync::Always } else { Fsync::Never }
}

/// How long the copies may be silent: under chaos some half as long as they are told to, some longer, since fleets are not all
/// alike.
fn leases(lease: Duration, nodes: u32, plan: Option<&Plan>) -> Vec<Duration> {
    let Some(plan) = plan else {
        return vec![lease; nodes as usize];
    };
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let drawn = |_| match random.u8(..4) {
        0 => lease / 2,
        1 => lease * 5 / 2,
        _ => lease,
    };
    let bounded = |lease: Duration| lease.clamp(Settings::LEASE_MIN, Settings::LEASE_MAX);
    (0..nodes).map(drawn).map(bounded).collect()
}

/// The options of the copies: the caller's, and ours where the caller gave none.
fn arguments(given: &Flags, queue: &str, chaos: bool, messages: Option<u64>) -> Vec<OsString> {
    let mut options = Flags::default();
    options.set(&INTERVAL, "0");
    options.set(&ERROR_RATE, "0.05");
    options.set(&WORK, "0");
    if chaos {
        options.set(&WORK, "0..10ms");
        options.set(&CONCURRENCY, "64");
        // Small, so that the queue drains soon once the faults are over.
        options.set(&MAX_BACKLOG, "20000");
        options.set(&EFFECTS, effects::prefix(queue));
    }
    let ours = [&MESSAGES, &NO_WAIT, &METRICS, &DASHBOARD];
    let theirs = |option: &&Opt| {
        let of_copies = option.group.scope == Scope::Start || **option == REPLICAS;
        of_copies && option.is_in_file && !ours.contains(option)
    };
    for option in given.given().filter(theirs) {
        options.set(option, given.text(option).unwrap_or_default());
    }
    if let Some(messages) = messages {
        options.set(&MESSAGES, messages.to_string());
    }
    options.arguments(|_| true)
}
