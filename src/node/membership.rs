//! The membership of one node: the beat that keeps it, leader election, and handing on what dead nodes held.
//!
//! ```text
//!            join                    beat: the crown is free, we are first
//! outside ─────────▶ handler ──────────────────────────────────▶ generator
//!    ▲                │  ▲                                         │
//!    │ beat: deposed  │  │ beat: another was crowned, or we resign │
//!    └────────────────┘  └─────────────────────────────────────────┘
//! ```
//!
//! # What a node may believe, and for how long
//!
//! **Nothing that a node believes of itself permits anything.** Whether it may publish or settle is decided in the store,
//! at the moment of the call: the store compares the node's id, its call number and its epoch (the fencing token) with
//! what it has recorded. What a node believes is only a reason to try.
//!
//! | belief | comes from | ends |
//! | --- | --- | --- |
//! | "I am a member" | the answer to the join or the last beat | at the next answer that says otherwise; a node that was silent for a lease may have been given up, and learns it from its next call |
//! | "I am the generator" | the last beat | at the next beat that says otherwise, or when a publish is fenced; the node asks again after a quarter of the crown's lease |
//! | "the next number is N" | the last answer to a publish or a beat | never on its own: the store says `Moved` if others pushed, `Gap` if it went back in time |
//! | "what I hold is mine" | the answer to the last exchange | with the membership: what is settled later is refused, and was handed to others |
//! | "the store is as I last saw it" | every answer | when the store was away or forgot this node: for one lease after that it does not let itself be crowned, so that every node can say first what it has seen |
//! | "what I publish gets out" | bytes that move while a publish is on its way | when nothing has moved for half a lease although beats are answered: the node resigns, and is not crowned for a lease |
//! | "my runtime makes progress" | `show_life`, every eighth of a lease | after a lease without it: a node that cannot publish does not keep the crown |

mod beside;
mod ends;
mod noticed;
mod outlet;
mod reach;
mod requests;
mod seat;
mod standing;
mod watching;

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::{Beat, Engine, Join, Joined, LANES, Member, NodeId, Reap, Renewed, Seen, TRIM_MAX};
use crate::error::{Error, Result};
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::context::Context;
use crate::node::event::Event;
use crate::node::id::new_id;
use crate::node::watch;

pub(crate) use beside::{show_life, watch_crown};
use outlet::Outlet;
use reach::Reach;
use requests::Requested;
pub(crate) use requests::Requests;
use seat::has_lost_claim;
pub(crate) use seat::{Home, Ids, Seat};
pub(crate) use standing::{Reign, Standing};
use watching::{Look, Watching};

/// How long an orderly leave may take while the store does not answer.
const LEAVE_TIME: Duration = Duration::from_secs(1);

/// Beats until told to leave, or until the store refuses for good.
pub(crate) struct Membership<E> {
    context: Context<E>,
    standing: watch::Sender<Standing>,
    host: String,
    backoff: Backoff,
    /// How often the rest of the node had shown life when last looked at, and when that last grew.
    turned: (u64, Instant),
    outlet: Outlet,
    watching: Watching,
    reach: Reach,
    /// When the store answered again after it had been away, or did not know this node any more.
    returned: Option<Instant>,
    /// Where the store was last found.
    place: Option<String>,
    /// What was last told of damage to the queue: how many pieces, and what else.
    damage: (u64, String),
    seat: Seat,
}

impl<E: Engine> Membership<E> {
    pub(crate) fn new(context: Context<E>, standing: watch::Sender<Standing>, seat: Seat) -> Self {
        Self {
            standing,
            seat,
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            backoff: Backoff::new(&context.settings),
            turned: (0, Instant::now()),
            outlet: Outlet::new(Instant::now()),
            watching: Watching::new(Instant::now()),
            reach: Reach::default(),
            returned: context.requests.requested().away,
            place: None,
            damage: (0, String::new()),
            context,
        }
    }

    pub(crate) async fn run(mut self) -> Result<()> {
        let mut abandoned: Option<NodeId> = None;
        loop {
            let joined = self.join().await;
            // Only now: until it had joined, the store had to wait for what the member before has seen. One that is to stop leaves it, too.
            if let Some(before) = abandoned.take() {
                let _ = tokio::time::timeout(LEAVE_TIME, self.context.engine.leave(&before)).await;
            }
            let Some(node) = joined? else {
                return Ok(());
            };
            self.serve(&node).await?;
            let requested = self.context.requests.requested();
            self.standing.send_modify(|standing| {
                standing.reign = None;
                standing.heir = false;
            });
            if requested.leave {
                if !guard("leave") {
                    return Ok(());
                }
                let left = tokio::time::timeout(LEAVE_TIME, self.leave(&node)).await;
                if matches!(left, Ok(Ok(()))) {
                    self.context.tell(&node, Event::Left);
                }
                return Ok(());
            }
            self.context.tell(&node, Event::Deposed { epoch: None });
            abandoned = requested.abandon.filter(|abandoned| *abandoned == node);
            // A store that does not know this node any more may have forgotten messages as well.
            self.returned = Some(Instant::now());
        }
    }

    /// None: told to leave before it came to that.
    async fn join(&mut self) -> Result<Option<NodeId>> {
        let mut node = if guard("new-id") || self.standing.borrow().node.is_empty() {
            self.seat.new_node_id()
        } else {
            self.standing.borrow().node.clone()
        };
        let (worked, settings) = (!self.standing.borrow().node.is_empty(), &self.context.settings);
        // Also before a reshard, after which it may lack the right to keys that are new.
        let was_at_work = worked || self.context.reopening.is_again;
        let mut join = Join {
            node: node.clone(),
            lanes: LANES,
            lease_ms: settings.lease_ms(),
            seen: if guard("seen-join") {
                self.context.requests.requested().seen
            } else {
                Seen::default()
            },
            token: new_id(),
            host: self.host.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            concurrency: settings.concurrency,
            deliveries_max: settings.deliveries_max,
            group_concurrency: settings.group_concurrency,
            group_skip_retries: settings.group_skip_retries,
        };
        loop {
            self.context.meter.beat_turns();
            if self.context.requests.requested().leave {
                return Ok(None);
            }
            let sent = Instant::now();
            match self.context.engine.join(&join).await {
                // Two nodes drew the same id, and the other one came first.
                Ok(Joined::Taken) => {
                    node = self.seat.another_node_id();
                    (join.node, join.token) = (node.clone(), new_id());
                }
                Ok(Joined::Ok { birth, rewound, purged }) => {
                    self.reach.took(sent.elapsed());
                    self.back(&node);
                    let next_number = join.seen.seq;
                    if purged {
                        self.context.requests.forget(self.standing.borrow().node.clone());
                        self.seat.was_purged(self.context.settings.lease);
                        self.context.tell(&node, Event::Purged);
                        // There is nothing that the others could have seen.
                        self.returned = None;
                    }
                    self.context.requests.saw_birth(birth);
                    if !worked || purged {
                        self.limit(&node).await?;
                    }
                    if !self.seat.is_elected() {
                        // Under another id it may claim the same epoch again, and is to be told the cursor again.
                        self.context.requests.reigned(0);
                    }
                    if let Some(lacked) = rewound {
                        self.context.tell(&node, Event::Rewound { next_number, lacked });
                    }
                    self.context.tell(&node, Event::Joined);
                    self.standing.send_modify(|standing| standing.node.clone_from(&node));
                    return Ok(Some(node));
                }
                // Before the home shard has told of it: what is in hand is finished first, in all shards.
                Err(Error::Resharded { line, .. }) if self.reopens(&line) => {
                    self.until_told_to_leave().await;
                    return Ok(None);
                }
                // What a node cannot begin with ends it; one that was at work waits.
                Err(error) if error.is_away() || (was_at_work && error.may_be_mended()) => {
                    self.wait(&node, &error.to_string()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Beats as this member, until it is none any more or is to leave.
    async fn serve(&mut self, node: &NodeId) -> Result<()> {
        loop {
            self.context.meter.beat_turns();
            let requested = self.context.requests.requested();
            if requested.leave || (requested.abandon.as_ref() == Some(node) && guard("abandoned")) {
                return Ok(());
            }
            self.reach.sends(Instant::now());
            let beat = self.beat(node, requested);
            match self.context.engine.beat(&beat).await {
                Ok(Renewed::Alive(member)) if has_lost_claim(&beat, &member) => {
                    self.context.requests.abandon(node);
                }
                Ok(Renewed::Alive(member)) => {
                    self.back(node);
                    self.heed_shards(node, &member);
                    self.look_at_publishes();
                    self.watching.hears(&member, Instant::now());
                    self.tell_damage(node, &member);
                    let more = self.reap(node, &member).await | self.trim(node, &member).await || member.more_due;
                    let pause = if more {
                        Duration::ZERO
                    } else {
                        standing::next_beat(&member, &self.context.settings, self.context.engine.is_watched())
                    };
                    self.stand(node, &member);
                    self.reach.pauses(pause);
                    self.rest(node, &member, pause).await;
                }
                Ok(Renewed::Deposed) => return Ok(()),
                Err(error) if error.may_be_mended() => self.wait(node, &error.to_string()).await,
                Err(error) => return Err(error),
            }
        }
    }

    fn beat(&mut self, node: &NodeId, requested: Requested) -> Beat {
        let resigned = requested.resign && guard("resign");
        let lease = self.context.settings.lease;
        let claims = self.seat.claims();
        let eligible = !resigned
            && (claims > 0 || self.seat.is_elected())
            && self.context.settings.may_generate()
            && self.shows_life()
            && self.has_heard_the_others()
            && self.outlet.is_open(lease, Instant::now());
        let settings = &self.context.settings;
        Beat {
            node: node.clone(),
            lease_ms: settings.lease_ms(),
            crown_ms: self.reach.crown_ms(settings),
            eligible,
            rank: settings.prefer.rank(),
            seen: if guard("seen-beat") {
                requested.seen
            } else {
                Seen::default()
            },
            server: String::new(),
            reigned: requested.reigned,
            replays: (settings.replicas > 0).then_some(requested.published),
            gone: std::mem::take(&mut self.watching.suspect),
            claims,
        }
    }

    /// Waits for the time of the next beat, or for what cannot wait, and looks meanwhile who is still there.
    async fn rest(&mut self, node: &NodeId, member: &Member, pause: Duration) {
        let until = Instant::now() + pause;
        loop {
            let look = self.watching.next(member, &self.context.settings);
            let look = look.filter(|(at, _)| *at < until);
            tokio::select! {
                biased;
                () = self.context.requests.waiting() => return,
                () = self.context.engine.cut_off() => return,
                () = self.seat.changed() => return,
                () = tokio::time::sleep_until(look.map_or(until, |(at, _)| at)) => {}
            }
            match look {
                Some((_, look)) if !self.look(node, member, look).await => {}
                _ => return,
            }
        }
    }

    /// Looks who is still there. True: there is a reason to beat at once.
    async fn look(&mut self, node: &NodeId, member: &Member, look: Look) -> bool {
        let before = Instant::now();
        let of = (look == Look::Crown).then_some(&member.crowned);
        let looked = self.context.engine.gone(of).await;
        let (now, settings) = (Instant::now(), &self.context.settings);
        let mut gone = match looked {
            Ok(Some(gone)) => gone,
            Ok(None) => {
                self.watching.is_blind(settings, now);
                return false;
            }
            // The beat says so.
            Err(_) => return true,
        };
        let took = now - before;
        if look == Look::Crown {
            return self.watching.heed_crown(member, &gone, settings, now, took);
        }
        gone.nodes.retain(|other| other != node);
        let mut more = false;
        for victim in self.watching.heed_house(member, gone, settings, now, took) {
            self.watching.settle(&victim);
            more |= self.reap_one(node, Reap { victim, gone: true }).await;
        }
        more
    }

    /// Beats are answered: do publishes get out, too?
    fn look_at_publishes(&mut self) {
        let Context {
            engine,
            requests,
            settings,
            ..
        } = &self.context;
        let moved = engine.moved().filter(|_| requests.is_publishing());
        self.outlet.look(moved, settings.lease, Instant::now());
    }

    /// Whether the runtime that generates and handles made progress within a lease.
    fn shows_life(&mut self) -> bool {
        let (turns, now) = (self.context.requests.turns(), Instant::now());
        if turns != self.turned.0 {
            self.turned = (turns, now);
        }
        now < self.turned.1 + self.context.settings.lease
    }

    /// A store that was away may have come back without its last writes. Nodes that saw them get a lease to say so
    /// before this one is crowned and gives the same numbers again. A generator has seen them all.
    fn has_heard_the_others(&self) -> bool {
        let within_a_lease = |at: Instant| Instant::now() < at + self.context.settings.lease;
        let lately = !self.backoff.is_fresh() || self.returned.is_some_and(within_a_lease);
        !lately || self.standing.borrow().reign.is_some()
    }

    /// Takes note of what the store said, and tells of changes.
    fn stand(&self, node: &NodeId, member: &Member) {
        let now = Instant::now();
        let Context {
            settings,
            observer,
            requests,
            meter,
            told,
            ..
        } = &self.context;
        told.heed(&member.cancels);
        meter.hears(member.wall_ms);
        if self.seat.is_elected() {
            meter.generates.store(member.generator, Ordering::Relaxed);
        }
        self.seat.saw_epoch(member.epoch);
        let seen_seq = requests.requested().seen.seq;
        // With replicas, a generator has seen what they have: the rest it can publish again.
        let can_replay = member.generator && settings.replicas > 0;
        if guard("saw-beat") && !can_replay {
            requests.saw_made(node, member.seq, member.made);
        }
        requests.saw_epoch(member.epoch);
        let mut changes = standing::Changes::default();
        self.standing.send_if_modified(|standing| {
            changes = standing.heed(member, seen_seq, settings, now);
            changes.wakes
        });
        if changes.beats_again {
            requests.beat_now();
        }
        if changes.elected {
            requests.reigned(member.epoch);
            if self.seat.is_elected() {
                meter.elections.fetch_add(1, Ordering::Relaxed);
            }
        }
        if !changes.events.is_empty() {
            observer.observe(node, &changes.events);
        }
    }

    /// Gives up one silent node, if the store names one. True: there is more to hand on.
    async fn reap(&mut self, node: &NodeId, member: &Member) -> bool {
        let Some(victim) = member.victim.as_ref().filter(|_| guard("reap")) else {
            return false;
        };
        self.reap_one(node, Reap::of(victim)).await
    }

    async fn reap_one(&mut self, node: &NodeId, reap: Reap) -> bool {
        let victim = &reap.victim;
        let reaped = match self.context.engine.reap(&reap).await {
            Ok(reaped) => reaped,
            Err(error) => {
                if !error.is_away() {
                    self.tell_once(node, format!("what {victim} held cannot be handed on: {error}"));
                }
                return false;
            }
        };
        let moved = reaped.redelivered + reaped.failed > 0;
        if moved || reaped.deposed {
            self.context.tell(
                node,
                Event::Reaped {
                    victim: victim.clone(),
                    redelivered: reaped.redelivered,
                    failed: reaped.failed,
                },
            );
        }
        moved || reaped.more || reaped.deposed
    }

    /// Removes the oldest errors beyond `errors_max`. True: there are more of them.
    async fn trim(&self, node: &NodeId, member: &Member) -> bool {
        let Some(keep) = self.context.settings.errors_max.filter(|_| member.generator) else {
            return false;
        };
        // If the store does not answer, the next beat tries again.
        let gone = self.context.engine.trim(keep).await.unwrap_or_default();
        let (Some(first), Some(last)) = (gone.first(), gone.last()) else {
            return false;
        };
        self.context.tell(
            node,
            Event::Trimmed {
                errors: gone.len() as u64,
                first: *first,
                last: *last,
            },
        );
        gone.len() == TRIM_MAX
    }

    /// The store is away: says so once, and waits a little longer each time.
    async fn wait(&mut self, node: &NodeId, reason: &str) {
        self.reach.fails();
        self.context.requests.is_away();
        if self.backoff.is_fresh() {
            let reason = reason.to_string();
            self.context.tell(node, Event::Away { reason });
        }
        self.backoff.wait().await;
    }

    /// The store has answered.
    fn back(&mut self, node: &NodeId) {
        let place = self.context.engine.place();
        if place != self.place {
            self.place.clone_from(&place);
            if let Some(server) = place {
                self.context.tell(node, Event::Relocated { server });
            }
        }
        if !self.backoff.is_fresh() {
            self.backoff.reset();
            self.returned = Some(Instant::now());
            self.context.tell(node, Event::Reconnected);
        }
    }
}

#[cfg(test)]
mod tests;
