//! Does what the plan says, and mends it when its time is over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::sync::PoisonError;
use std::time::Duration;

use super::fleet::Fleet;
use super::plan::Fault;
use super::run::Load;
use super::sampler::Snapshot;
use super::several::{Forgot, LAG_MS, Several, Switches};
use crate::app::exit::Failure;
use crate::app::lab::proxy::{Direction, Proxy};
use crate::app::lab::server::Server;
use crate::app::lab::test_bed::{TestBed, USER};
use crate::app::output::time::now_ms;

/// How long a fault waits for a process that it can hit, before it is left out.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a replica follows: long enough to have everything, on its disk too.
const FOLLOWING: Duration = Duration::from_millis(1500);
/// What was seen of the store longer ago is not believed.
const FRESH: Duration = Duration::from_millis(500);

pub(super) struct Chaos {
    plan: Vec<(Duration, Fault)>,
    next: usize,
    random: fastrand::Rng,
    lease: Duration,
    mends: Vec<(Duration, Mend)>,
    /// Nothing else is broken meanwhile.
    quiet_until: Duration,
    /// Until then a right is missing.
    pub(super) rightless_until: Duration,
    /// What the store forgot: all between these times, in milliseconds since 1970.
    pub(super) forgot: Forgot,
    pub(super) switches: Switches,
    several: Option<Several>,
    /// Until then, copies may be missed that were killed or stopped.
    missed_until: Duration,
    /// How often each kind came.
    pub(super) done: BTreeMap<&'static str, u64>,
    log: File,
}

/// Ends a fault.
type Mend = Box<dyn FnOnce(&mut Fleet, &mut TestBed) -> Result<(), Failure>>;

impl Chaos {
    pub(super) fn new(load: &Load, bed: &TestBed) -> std::io::Result<Self> {
        let (forgot, switches) = (Forgot::default(), Switches::default());
        let several = bed.topology.as_ref().map(|topology| Several {
            topology: topology.clone(),
            queue: load.queue.clone(),
            shards: load.settings.names.shards as usize,
            forgot: forgot.clone(),
            switches: switches.clone(),
            needs_replicas: load.settings.replicas > 0,
            running: None,
        });
        let (seed, plan) = match &load.plan {
            Some(plan) => (plan.seed, plan.faults.clone()),
            None => (0, Vec::new()),
        };
        Ok(Self {
            plan,
            next: 0,
            random: fastrand::Rng::with_seed(seed),
            lease: load.lease,
            mends: Vec::new(),
            quiet_until: Duration::ZERO,
            rightless_until: Duration::ZERO,
            forgot,
            switches,
            several,
            missed_until: Duration::ZERO,
            done: load
                .plan
                .iter()
                .flat_map(|plan| &plan.kinds)
                .map(|kind| (*kind, 0))
                .collect(),
            log: File::create(bed.directory.path.join("faults.txt"))?,
        })
    }

    /// How many there were so far.
    pub(super) fn count(&self) -> u64 {
        self.done.values().sum()
    }

    /// Breaks what is due, and mends what was broken for long enough.
    pub(super) fn turn(
        &mut self,
        now: Duration,
        fleet: &mut Fleet,
        bed: &mut TestBed,
        seen: Option<&Snapshot>,
    ) -> Result<(), Failure> {
        self.mend(now, fleet, bed)?;
        let Some((at, fault)) = self.plan.get(self.next).copied() else {
            return Ok(());
        };
        if let Some(several) = &mut self.several
            && several.is_busy()?
        {
            // Whoever was killed meanwhile could not tell what it has seen.
            self.quiet_until = now + 3 * self.lease;
        }
        if now < at.max(self.quiet_until) {
            return Ok(());
        }
        match self.strike(fault, now, fleet, bed, seen)? {
            Some(whom) => {
                if fault.harms_copies() {
                    let leases = fleet.seats.iter().map(|seat| seat.lease);
                    self.missed_until = now + leases.max().unwrap_or(self.lease);
                }
                *self.done.entry(fault.name()).or_default() += 1;
                self.note(fault, &whom)?;
                self.next += 1;
            }
            None if now >= at.max(self.quiet_until) + PATIENCE => {
                self.note(fault, "left out: nobody to meet")?;
                self.next += 1;
            }
            None => {}
        }
        Ok(())
    }

    fn note(&mut self, fault: Fault, whom: &str) -> Result<(), Failure> {
        writeln!(self.log, "{} {fault:?} {whom}", now_ms())
            .map_err(|error| Failure::cannot("write what was done", error))
    }

    /// None: not possible now. Otherwise whom it met.
    fn strike(
        &mut self,
        fault: Fault,
        now: Duration,
        fleet: &mut Fleet,
        bed: &mut TestBed,
        seen: Option<&Snapshot>,
    ) -> Result<Option<String>, Failure> {
        let ms = Duration::from_millis;
        let generator = seen.filter(|seen| seen.at.elapsed() < FRESH).and_then(|seen| {
            let seat = fleet.seat_of(seen.generator?)?;
            (!fleet.seats[seat].is_frozen).then_some(seat)
        });
        let whole: Vec<usize> = (0..fleet.seats.len())
            .filter(|seat| !fleet.seats[*seat].is_frozen)
            .collect();
        let handlers: Vec<usize> = whole.iter().copied().filter(|seat| Some(*seat) != generator).collect();
        let handler = self.random.choice(handlers);
        // The pusher comes after the seats.
        let mut linked = whole.clone();
        linked.push(fleet.seats.len());
        let anyone = self.random.choice(linked);
        // Of a queue with shards, the way to one of them, or to all.
        let links = fleet.seats.first().map_or(0, |seat| seat.proxies.len());
        let link = if links > 1 {
            Some(self.random.usize(..=links))
        } else {
            None
        };
        let anyone_at = anyone.map(|seat| (seat, link.filter(|link| *link < links)));
        // Someone must be left to take over.
        let spared = whole.len() > 1;
        let all_well = whole.len() == fleet.seats.len() && now >= self.missed_until;
        let met = match fault {
            Fault::KillGenerator => generator.map(|seat| Self::kill(fleet, seat)).transpose()?,
            Fault::KillHandler => handler.map(|seat| Self::kill(fleet, seat)).transpose()?,
            Fault::KillReader => {
                fleet.read_errors()?;
                let soon = now + ms(self.random.u64(0..60));
                self.later(soon, |fleet, _| {
                    fleet.kill_readers();
                    Ok(())
                });
                Some(String::new())
            }
            Fault::StopGenerator(tenths) => generator
                .filter(|_| spared)
                .map(|seat| self.freeze(fleet, seat, now, tenths)),
            Fault::StopHandler(tenths) => handler
                .filter(|_| spared)
                .map(|seat| self.freeze(fleet, seat, now, tenths)),
            Fault::Cut => anyone_at.and_then(|at| proxied(fleet, at, Proxy::cut)),
            Fault::CutAll => {
                for seat in 0..=fleet.seats.len() {
                    proxied(fleet, (seat, None), Proxy::cut);
                }
                Some("all".into())
            }
            Fault::ShardAway(length) => self.shut_off(bed, now + ms(length)),
            Fault::Reshard(to, killed_after) => Some(self.reshard(fleet, to, now + ms(killed_after))?),
            Fault::Delay(by, length) => self.disturb(fleet, anyone_at, now + ms(length), move |proxy, on| {
                proxy.delay(if on { ms(by) } else { Duration::ZERO });
            }),
            Fault::HalfOpen(length) => self.disturb(fleet, anyone_at, now + ms(length), Proxy::half_open),
            Fault::BlackHole(length) => self.disturb(fleet, anyone_at, now + ms(length), Proxy::black_hole),
            Fault::Throttle(kilobytes, length) => self.disturb(fleet, anyone_at, now + ms(length), move |proxy, on| {
                for direction in [Direction::Requests, Direction::Replies] {
                    proxy.throttle(direction, if on { 1000 * kilobytes } else { 0 });
                }
            }),
            Fault::SmallOnly(bytes, length) => self.disturb(fleet, anyone_at, now + ms(length), move |proxy, on| {
                proxy.swallow_beyond(if on { bytes } else { 0 });
            }),
            Fault::NoCandidates(length) => {
                fleet.replace_all(false)?;
                self.later(now + ms(length), |fleet, _| fleet.replace_all(true));
                Some("all".into())
            }
            Fault::Promote(lag) => self.promote(now, lag, bed),
            Fault::FailOver(_)
            | Fault::LoseTail(_)
            | Fault::TwoPrimaries
            | Fault::MoveSlot
            | Fault::KillSentinel(_) => self.several.as_mut().map(|several| {
                let shard = match several.shards {
                    ..2 => 0,
                    shards => self.random.usize(..shards),
                };
                several.strike(fault, all_well, shard);
                format!("the servers of shard {shard}")
            }),
            Fault::KillRedis(_)
            | Fault::FlushScripts
            | Fault::KillClients
            | Fault::Sleep(_)
            | Fault::OutOfMemory(_)
            | Fault::TakeRight(..)
            | Fault::TakeSight(..) => self.strike_server(fault, now, bed),
        };
        Ok(met)
    }

    /// Nothing gets through to one shard until then.
    fn shut_off(&mut self, bed: &mut TestBed, until: Duration) -> Option<String> {
        let shard = self.random.usize(..bed.servers().max(1));
        bed.front_of(shard)?.black_hole(true);
        self.later(until, move |_, bed| {
            if let Some(front) = bed.front_of(shard) {
                front.black_hole(false);
            }
            Ok(())
        });
        Some(format!("shard {shard}"))
    }

    /// Someone changes the number of shards, and is killed then.
    fn reshard(&mut self, fleet: &mut Fleet, to: u64, until: Duration) -> Result<String, Failure> {
        fleet.reshard(to)?;
        self.later(until, |fleet, _| {
            fleet.leave_reshard();
            Ok(())
        });
        Ok(format!("to {to} shards"))
    }

    fn strike_server(&mut self, fault: Fault, now: Duration, bed: &mut TestBed) -> Option<String> {
        let at = match bed.servers() {
            ..2 => 0,
            servers => self.random.usize(..servers),
        };
        let server = bed.server_of(at).filter(|server| server.is_running())?;
        let ms = Duration::from_millis;
        match fault {
            Fault::KillRedis(down) => {
                server.kill();
                self.later(now + ms(down), move |_, bed| {
                    let ended = bed.server_of(at).filter(|server| !server.is_running());
                    let started = ended.map_or(Ok(()), Server::run);
                    started.map_err(|error| Failure::cannot("start redis-server again", error))
                });
            }
            Fault::FlushScripts => _ = server.command(&["SCRIPT", "FLUSH"]).ok()?,
            Fault::KillClients => {
                // Control connections are of the second kind: whoever lives is seen to have died.
                for kind in ["normal", "pubsub"] {
                    server.command(&["CLIENT", "KILL", "TYPE", kind]).ok()?;
                }
            }
            Fault::Sleep(length) => {
                server.send(&["DEBUG", "SLEEP", &ms(length).as_secs_f64().to_string()]);
            }
            Fault::OutOfMemory(length) => {
                server.command(&["CONFIG", "SET", "maxmemory", "1"]).ok()?;
                self.later(now + ms(length), move |_, bed| {
                    // One that was killed meanwhile comes back without a limit.
                    if let Some(server) = bed.server_of(at) {
                        server.send(&["CONFIG", "SET", "maxmemory", "0"]);
                    }
                    Ok(())
                });
            }
            Fault::TakeRight(command, length) | Fault::TakeSight(command, length) => {
                server.command(&["PING"]).ok()?;
                let taken = server.command(&["ACL", "SETUSER", USER, &format!("-{command}")]);
                self.rightless_until = self.rightless_until.max(now + ms(length));
                // Also if there was no answer: it may have happened all the same.
                self.later(now + ms(length), move |_, bed| {
                    // One that was killed meanwhile comes back with all rights.
                    if let Some(server) = bed.server_of(at) {
                        server.insist(&["ACL", "SETUSER", USER, &format!("+{command}")]);
                    }
                    Ok(())
                });
                taken.ok()?;
            }
            _ => unreachable!("not a fault of the server"),
        }
        Some(if at == 0 {
            "redis-server".into()
        } else {
            format!("the redis-server of shard {at}")
        })
    }

    /// A replica that follows, stops following, and takes over. Whoever was killed meanwhile could not tell what it has seen:
    /// so nobody is.
    fn promote(&mut self, now: Duration, lag: u64, bed: &mut TestBed) -> Option<String> {
        let server = bed.server.as_ref().filter(|server| server.is_running())?;
        bed.replica = Some(server.replica().ok()?);
        let detached = now + FOLLOWING;
        let promoted = detached + Duration::from_millis(lag);
        self.quiet_until = promoted + 3 * self.lease;
        self.later(detached, |_, bed| {
            let in_step = bed.replica.as_ref().is_some_and(Server::is_in_step);
            let alone = bed
                .replica
                .as_ref()
                .map(|replica| replica.command(&["REPLICAOF", "NO", "ONE"]));
            if !in_step || alone.is_none_or(|answer| answer.is_err()) {
                bed.replica = None;
            }
            Ok(())
        });
        let (forgot, from) = (self.forgot.clone(), now_ms() + crate::settings::ms(FOLLOWING) - LAG_MS);
        self.later(promoted, move |_, bed| {
            if bed.replica.is_some() {
                bed.promote();
                let mut forgot = forgot.lock().unwrap_or_else(PoisonError::into_inner);
                forgot.push((from, now_ms() + LAG_MS));
            }
            Ok(())
        });
        Some("redis-server".into())
    }

    fn later(&mut self, at: Duration, mend: impl FnOnce(&mut Fleet, &mut TestBed) -> Result<(), Failure> + 'static) {
        self.mends.push((at, Box::new(mend)));
    }

    /// Switches something on in the proxy of this copy, and off again then.
    fn disturb(
        &mut self,
        fleet: &Fleet,
        seat: Option<(usize, Option<usize>)>,
        until: Duration,
        switch: impl Fn(&Proxy, bool) + 'static,
    ) -> Option<String> {
        let seat = seat?;
        let met = proxied(fleet, seat, |proxy| switch(proxy, true))?;
        self.later(until, move |fleet, _| {
            proxied(fleet, seat, |proxy| switch(proxy, false));
            Ok(())
        });
        Some(met)
    }

    fn kill(fleet: &mut Fleet, seat: usize) -> Result<String, Failure> {
        let pid = fleet.seats[seat].pid();
        fleet.kill(seat);
        fleet.start(seat)?;
        Ok(format!("process {}", pid.unwrap_or_default()))
    }

    fn freeze(&mut self, fleet: &mut Fleet, seat: usize, now: Duration, tenths: u64) -> String {
        fleet.freeze(seat);
        let length = self.lease * u32::try_from(tenths).unwrap_or(u32::MAX) / 10;
        self.later(now + length, move |fleet, _| {
            fleet.thaw(seat);
            Ok(())
        });
        format!("process {}", fleet.seats[seat].pid().unwrap_or_default())
    }

    /// Mends everything, and breaks nothing more.
    pub(super) fn calm(&mut self, fleet: &mut Fleet, bed: &mut TestBed) -> Result<(), Failure> {
        self.next = self.plan.len();
        self.rightless_until = Duration::ZERO;
        if let Some(several) = &mut self.several {
            several.end()?;
        }
        self.mend(Duration::MAX, fleet, bed)
    }

    /// Mends what was to be broken until now.
    fn mend(&mut self, now: Duration, fleet: &mut Fleet, bed: &mut TestBed) -> Result<(), Failure> {
        let mut due = self.mends.extract_if(.., |(at, _)| *at <= now);
        due.try_for_each(|(_, mend)| mend(fleet, bed))
    }
}

/// Before one store, or before all of them. None, if no proxy stands there.
fn proxied(fleet: &Fleet, (seat, link): (usize, Option<usize>), act: impl Fn(&Proxy)) -> Option<String> {
    let seat = fleet.seats.get(seat);
    let proxies = match seat {
        Some(seat) => &seat.proxies,
        None => &fleet.pusher.as_ref()?.proxies,
    };
    let of = proxies
        .iter()
        .enumerate()
        .filter(|(at, _)| link.is_none_or(|link| link == *at));
    if of.map(|(_, proxy)| act(proxy)).count() == 0 {
        return None;
    }
    let Some(seat) = seat else {
        return Some("the pusher".into());
    };
    Some(format!("process {}", seat.pid().unwrap_or_default()))
}
