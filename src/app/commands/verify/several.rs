//! Faults of several servers. Each takes its time, on a thread of its own, and nothing else is broken meanwhile.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::plan::Fault;
use crate::app::exit::Failure;
use crate::app::lab::topology::{Failover, Kind, Topology};
use crate::app::output::time::now_ms;

/// A replica may be behind by this much, and an answer on its way for as long, in milliseconds.
pub(super) const LAG_MS: u64 = 700;

/// What the store forgot: all between these times, in milliseconds since 1970.
pub(super) type Forgot = Arc<Mutex<Vec<(u64, u64)>>>;

/// How often the servers changed their primary, and when.
pub(super) type Switches = Arc<Mutex<Vec<Switch>>>;

/// One change of the primary, in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switch {
    pub(super) what: What,
    pub(super) struck: u64,
    /// Another primary was there.
    pub(super) ready: u64,
    /// All followed it.
    pub(super) together: u64,
    /// All copies were well: none had been killed or stopped for a lease.
    pub(super) all_well: bool,
    /// What is told must be on a replica first.
    pub(super) needs_replicas: bool,
}

/// How the queue came to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    AskedFor,
    Forced,
    Takeover,
    Killed,
    LostWithItsTail,
    TwoPrimaries,
    SlotMoved,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AskedFor => "asked_for",
            Self::Forced => "forced",
            Self::Takeover => "takeover",
            Self::Killed => "killed",
            Self::LostWithItsTail => "lost_with_its_tail",
            Self::TwoPrimaries => "two_primaries",
            Self::SlotMoved => "slot_moved",
        }
    }

    /// None: the queue stays where it is.
    fn of(fault: Fault, kind: Kind) -> Option<Self> {
        Some(match fault {
            Fault::FailOver(how) => match (failover(how), kind) {
                (Failover::Killed, _) => Self::Killed,
                (Failover::Forced, Kind::Cluster) => Self::Forced,
                (Failover::Takeover, Kind::Cluster) => Self::Takeover,
                _ => Self::AskedFor,
            },
            Fault::LoseTail(_) => Self::LostWithItsTail,
            Fault::TwoPrimaries => Self::TwoPrimaries,
            Fault::MoveSlot => Self::SlotMoved,
            _ => return None,
        })
    }
}

fn failover(how: usize) -> Failover {
    Failover::ALL[how % Failover::ALL.len()]
}

impl Switch {
    /// When messages could be told again.
    pub(super) fn usable(&self) -> u64 {
        if self.needs_replicas { self.together } else { self.ready }
    }
}

pub(super) struct Several {
    pub(super) topology: Arc<Mutex<Topology>>,
    pub(super) queue: String,
    pub(super) shards: usize,
    pub(super) forgot: Forgot,
    pub(super) switches: Switches,
    pub(super) needs_replicas: bool,
    pub(super) running: Option<JoinHandle<io::Result<()>>>,
}

impl Several {
    /// Whether one is under way. An error, if the last one did not come to its end.
    pub(super) fn is_busy(&mut self) -> Result<bool, Failure> {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return Ok(true);
        }
        self.end().map(|()| false)
    }

    /// Strikes the servers of this shard.
    pub(super) fn strike(&mut self, fault: Fault, all_well: bool, shard: usize) {
        let shards = self.shards;
        let (topology, queue, forgot) = (self.topology.clone(), self.queue.clone(), self.forgot.clone());
        let (switches, needs_replicas) = (self.switches.clone(), self.needs_replicas);
        self.running = Some(std::thread::spawn(move || {
            let struck_ms = now_ms();
            let mut topology = topology.lock().unwrap_or_else(PoisonError::into_inner);
            topology.of_shard(shard, shards);
            let struck = strike(&mut topology, &queue, fault);
            // What a new primary lacks.
            let mut forgot = forgot.lock().unwrap_or_else(PoisonError::into_inner);
            forgot.push((struck_ms - LAG_MS, now_ms() + LAG_MS));
            let (together, what) = (now_ms(), What::of(fault, topology.kind()));
            let ready = match what {
                // While it moves, its keys are on two servers.
                Some(What::SlotMoved) if struck.is_ok() => together,
                _ => topology.ready_ms(),
            };
            if let Some(what) = what.filter(|_| ready >= struck_ms) {
                let mut switches = switches.lock().unwrap_or_else(PoisonError::into_inner);
                switches.push(Switch {
                    what,
                    struck: struck_ms,
                    ready,
                    together,
                    all_well,
                    needs_replicas,
                });
            }
            struck
        }));
    }

    /// Waits for the one that is under way.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        let ended = self.running.take().map(JoinHandle::join);
        let ended = ended
            .unwrap_or(Ok(Ok(())))
            .map_err(|_| Failure::failed("a fault panicked"))?;
        ended.map_err(|error| Failure::cannot("break several servers", error))
    }
}

fn strike(topology: &mut Topology, queue: &str, fault: Fault) -> io::Result<()> {
    match fault {
        Fault::FailOver(how) => topology.fail_over(queue, failover(how)),
        Fault::LoseTail(ms) => {
            let old = topology.detach(queue)?;
            std::thread::sleep(Duration::from_millis(ms));
            topology.kill(old);
            topology.replaced(queue, old)?;
            topology.restart(old)?;
            topology.attach()?;
            topology.agreed(queue).map(drop)
        }
        Fault::TwoPrimaries => {
            let old = topology.agreed(queue)?;
            topology.freeze(old, true);
            let replaced = topology.replaced(queue, old);
            topology.freeze(old, false);
            replaced?;
            topology.agreed(queue).map(drop)
        }
        Fault::MoveSlot => topology.migrate(queue),
        Fault::KillSentinel(ms) => {
            topology.kill_sentinel(0);
            std::thread::sleep(Duration::from_millis(ms));
            topology.restart_sentinel(0)
        }
        _ => unreachable!("not a fault of several servers"),
    }
}
