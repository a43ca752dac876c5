//! What befalls a fleet, and its end.

use std::sync::Arc;

use queenright::settings::Names;
use queenright::settings::Prefer;

use super::errands::{Errand, start_operator, start_pusher};
use super::plan::Fault;
use super::process::{Kind, Process, kill, pause, resume, start_node, start_node_that, start_reader, start_rogue};
use super::world::{Inner, World, sleep_ms};

pub fn befall(world: &Arc<World>, fault: Fault) {
    world.with(|inner| inner.note(|| format!("{fault:?}")));
    let each = |process: Option<usize>, befall: &dyn Fn(usize)| process.into_iter().for_each(befall);
    match fault {
        Fault::Kill => each(any(world, Kind::Node), &|process| kill(world, process)),
        Fault::KillGenerator => each(generator(world), &|process| kill(world, process)),
        Fault::KillReader => each(any(world, Kind::Reader), &|process| kill(world, process)),
        Fault::Pause(ms) => each(any(world, Kind::Node), &|process| pause(world, process, ms)),
        Fault::PauseGenerator(ms) => each(generator(world), &|process| pause(world, process, ms)),
        Fault::PauseReader(ms) => each(any(world, Kind::Reader), &|process| pause(world, process, ms)),
        Fault::Stop => each(any(world, Kind::Node), &|process| stop(world, process)),
        Fault::StopGenerator => each(generator(world), &|process| stop(world, process)),
        Fault::Drop => each(any(world, Kind::Node), &|process| {
            world.with(|inner| {
                inner.processes[process].dropped = true;
                if let Some(abort) = &inner.processes[process].abort {
                    abort.abort();
                }
            });
        }),
        Fault::Start => drop(start_node(world, Kind::Node)),
        Fault::Burst => drop(start_node_that(world, Kind::Burst, Prefer::Either)),
        // One that comes first makes the queue, and is no stranger.
        Fault::Stranger if world.lock().state.meta.is_none() => {}
        Fault::Stranger => {
            let process = start_node(world, Kind::Stranger);
            let names = world.lock().processes[process].names.clone();
            start_pusher(world, names);
        }
        Fault::Push => drop(start_pusher(world, Names::default())),
        Fault::Halt { generator, handlers } => {
            let halt = |halt: bool| halt.then_some(true);
            start_operator(world, Errand::Pause(halt(generator), halt(handlers)));
        }
        Fault::Resume { generator, handlers } => {
            let resume = |resume: bool| resume.then_some(false);
            start_operator(world, Errand::Pause(resume(generator), resume(handlers)));
        }
        Fault::HaltGroup => start_operator(world, Errand::PauseGroup("g0".into(), true)),
        Fault::Cancel => {
            let numbers = world.with(|inner| {
                let seq = inner.state.meta.as_ref().map_or(0, |meta| meta.seq);
                let from = seq.saturating_sub(inner.rng.u64(1..12));
                let some = (0..inner.rng.u64(1..=4)).map(|_| inner.rng.u64(from..=seq + 1));
                some.collect()
            });
            start_operator(world, Errand::Cancel(numbers));
        }
        Fault::CancelGroup => start_operator(world, Errand::CancelGroup("g0".into())),
        Fault::Limit(limits) => start_operator(world, Errand::Limit(limits)),
        Fault::ResumeGroups => start_operator(world, Errand::PauseGroup("g0".into(), false)),
        Fault::Rogue => start_rogue(world),
        Fault::Read => {
            let limit = world.with(|inner| inner.rng.bool().then(|| inner.rng.u64(1..6)));
            start_reader(world, limit, false);
        }
        Fault::Handover => {
            let to = world.with(|inner| {
                let mut anyone: Vec<Option<String>> = inner.state.nodes.keys().cloned().map(Some).collect();
                anyone.extend([None, Some("nobody".into())]);
                inner.rng.choice(&anyone).cloned().flatten()
            });
            start_operator(world, Errand::Handover(to));
        }
        Fault::Requeue => start_operator(world, Errand::Requeue),
        Fault::Discard => start_operator(world, Errand::Discard),
        Fault::Purge => start_operator(world, Errand::TryPurge),
        Fault::Cut | Fault::Delay(_) | Fault::HalfOpen(_) | Fault::BlackHole(_) => befall_link(world, fault),
        _ => befall_store(world, fault),
    }
}

fn any(world: &World, kind: Kind) -> Option<usize> {
    world.with(|inner| {
        let live: Vec<usize> = (0..inner.processes.len())
            .filter(|process| inner.processes[*process].works() && inner.processes[*process].kind == kind)
            .collect();
        inner.rng.choice(&live).copied()
    })
}

fn generator(world: &World) -> Option<usize> {
    world.with(|inner| {
        let node = inner.state.meta.as_ref().map(|meta| meta.generator.clone())?;
        let process = inner.members.get(&node).copied()?;
        (inner.processes[process].works() && inner.processes[process].kind == Kind::Node).then_some(process)
    })
}

fn befall_link(world: &World, fault: Fault) {
    let reigns = fault != Fault::Cut && world.lock().calls.is_multiple_of(2);
    let process = if reigns {
        generator(world)
    } else {
        any(world, Kind::Node)
    };
    let Some(process) = process else { return };
    world.with(|inner| {
        let (now, lease) = (inner.now(), inner.plan.lease_ms());
        let link = &mut inner.processes[process];
        let ms = match fault {
            Fault::Delay(ms) => {
                link.slow_until = now + ms;
                ms
            }
            Fault::HalfOpen(ms) => {
                link.mute_until = now + ms;
                ms
            }
            Fault::BlackHole(ms) => {
                link.hole_until = now + ms;
                ms
            }
            _ => {
                link.generation += 1;
                0
            }
        };
        let breaks = fault == Fault::Cut && inner.plan.settings.watch;
        if breaks {
            inner.hide(process);
        }
        let link = &mut inner.processes[process];
        link.trouble = link.trouble.max(if ms > 0 { now + ms + lease / 2 } else { now });
    });
}

fn befall_store(world: &Arc<World>, fault: Fault) {
    let troubled = |ms: u64| {
        world.with(|inner| {
            let now = inner.now();
            if inner.store_trouble + 2 * inner.plan.lease_ms() < now {
                inner.store_trouble_since = now;
            }
            inner.store_trouble = inner.store_trouble.max(now + ms);
        });
    };
    match fault {
        Fault::Away(ms) => {
            troubled(ms);
            world.with(|inner| inner.up = false);
            cut_everyone(world);
            later(world, ms, |inner| inner.up = true);
        }
        Fault::Restart => {
            troubled(0);
            cut_everyone(world);
        }
        Fault::Freeze(ms) => {
            troubled(ms);
            world.with(|inner| inner.frozen_until = inner.frozen_until.max(inner.now() + ms));
        }
        Fault::Full(ms) => {
            world.with(|inner| inner.full = true);
            later(world, ms, |inner| inner.full = false);
        }
        Fault::Step(by) => world.with(|inner| inner.step_wall(by)),
        Fault::Keep => world.with(|inner| {
            inner.kept = Some((inner.state.clone(), inner.book.clone()));
            inner.cut_off_replica();
        }),
        Fault::Rewind => {
            troubled(0);
            world.with(Inner::rewind);
            cut_everyone(world);
        }
        other => unreachable!("{other:?} befalls a process"),
    }
}

fn later(world: &Arc<World>, ms: u64, change: fn(&mut Inner)) {
    let world = world.clone();
    tokio::spawn(async move {
        sleep_ms(ms).await;
        world.with(change);
    });
}

fn cut_everyone(world: &World) {
    world.with(|inner| inner.processes.iter_mut().for_each(|process| process.generation += 1));
}

pub fn stop(world: &World, process: usize) {
    world.with(|inner| {
        let now = inner.now();
        inner.note(|| format!("{process}: is told to stop"));
        inner.processes[process].stopping = Some(now);
        if let Some(stopper) = &inner.processes[process].stopper {
            stopper.stop();
        }
    });
}

/// The faults end, and there are enough nodes to work.
pub fn heal(world: &Arc<World>) {
    let count = world.with(|inner| {
        inner.note(|| "the faults end".into());
        let now = inner.now();
        (inner.up, inner.full, inner.frozen_until, inner.accidents) = (true, false, 0, 0);
        inner.plan.lies = 0;
        for process in &mut inner.processes {
            process.hidden_until = 0;
        }
        inner.set_wall_right();
        inner.attach_replica();
        inner.store_trouble = now;
        for process in &mut inner.processes {
            (process.slow_until, process.mute_until, process.hole_until) = (0, 0, 0);
        }
        inner.processes.len()
    });
    for process in 0..count {
        resume(world, process);
    }
    let needed = if world.plan.settings.also_handle { 1 } else { 2 };
    for _ in world.with(|inner| inner.nodes_at_work())..needed {
        start_node(world, Kind::Node);
    }
    let may = |process: &Process| process.works() && process.kind == Kind::Node && process.prefer != Prefer::Never;
    if !world.plan.barren && !world.lock().processes.iter().any(may) {
        start_node_that(world, Kind::Node, Prefer::Either);
    }
}
