//! The beat: membership, the crown, and handing on what dead nodes held.
//!
//! ```text
//!            join                    beat: crown free, we are first
//! outside ─────────▶ handler ──────────────────────────────────▶ generator
//!    ▲                │  ▲                                         │
//!    │ beat: deposed  │  │ beat: another was crowned, or we resign │
//!    └────────────────┘  └─────────────────────────────────────────┘
//! ```
//! What a node believes of itself is only a reason to try: whether it may publish or settle is decided in the store,
//! by the store, at the moment of the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::{Beat, Engine, Join, Member, NodeId, Paused, Reap, Renewed, Seen, TRIM_MAX, Wake};
use crate::error::Result;
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::event::{Event, Observer};
use crate::node::meter::Meter;
use crate::node::watch;
use crate::settings::Settings;

/// How long an orderly leave may take while the store does not answer.
const LEAVE_TIME: Duration = Duration::from_secs(1);

/// What a node is, as far as it knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// Empty before the first join.
    pub node: NodeId,
    pub reign: Option<Reign>,
    pub heir: bool,
    pub paused: Paused,
}

/// A generator's reign, as the store last told of it.
#[derive(Debug, Clone)]
pub(crate) struct Reign {
    pub epoch: u64,
    pub seq: u64,
    pub made: u64,
    pub grain: u64,
    /// What the last message left for this one.
    pub cursor: bytes::Bytes,
    /// When the next tick is due.
    pub due: Instant,
    /// The store's wall clock at `told`.
    pub wall_ms: u64,
    pub told: Instant,
}

/// What the rest of the node asks of the beat.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Beat now.
    pub beat_now: Notify,
    /// Grows for as long as the runtime that generates and handles turns.
    pub turns: AtomicU64,
    wishes: std::sync::Mutex<Requested>,
}

#[derive(Debug, Clone, Default)]
struct Requested {
    resign: bool,
    leave: bool,
    /// The membership that no longer works.
    abandon: Option<NodeId>,
    seen: Seen,
}

impl Requests {
    fn wish(&self, change: impl FnOnce(&mut Requested)) {
        change(&mut self.wishes.lock().expect("nobody panics with the wishes in hand"));
        self.beat_now.notify_one();
    }

    fn wishes(&self) -> Requested {
        self.wishes
            .lock()
            .expect("nobody panics with the wishes in hand")
            .clone()
    }

    /// Give up the crown and never take it again.
    pub fn resign(&self) {
        self.wish(|wishes| wishes.resign = true);
    }

    /// End the membership, and the beat.
    pub fn leave(&self) {
        self.wish(|wishes| wishes.leave = true);
    }

    /// The store does not know this membership any more: get another.
    pub fn abandon(&self, node: &NodeId) {
        self.wish(|wishes| wishes.abandon = Some(node.clone()));
    }

    /// The highest number seen, so that a store that went back in time is noticed.
    pub fn saw(&self, seq: u64) {
        let mut wishes = self.wishes.lock().expect("nobody panics with the wishes in hand");
        wishes.seen.seq = wishes.seen.seq.max(seq);
    }
}

/// Beats until told to leave, or until the store refuses for good.
pub(crate) struct Membership<E> {
    pub engine: Arc<E>,
    pub settings: Arc<Settings>,
    pub observer: Arc<dyn Observer>,
    pub asks: Arc<Requests>,
    pub meter: Arc<Meter>,
    pub standing: watch::Sender<Standing>,
    pub host: String,
    pub backoff: Backoff,
    /// How often the rest of the node had turned when last seen, and when that was.
    pub turned: (u64, Instant),
    /// When the store answered again after it had been away, or did not know this node any more.
    pub returned: Option<Instant>,
}

impl<E: Engine> Membership<E> {
    pub(crate) async fn run(mut self) -> Result<()> {
        loop {
            let Some(node) = self.join().await? else {
                return Ok(());
            };
            self.serve(&node).await?;
            let wishes = self.asks.wishes();
            self.standing.send_modify(|standing| {
                standing.reign = None;
                standing.heir = false;
            });
            if wishes.leave {
                if !guard("leave") {
                    return Ok(());
                }
                let left = tokio::time::timeout(LEAVE_TIME, self.leave(&node)).await;
                if left.is_ok() {
                    self.tell(&node, Event::Left);
                }
                return Ok(());
            }
            self.tell(&node, Event::Deposed { epoch: None });
            if wishes.abandon.as_ref() == Some(&node) {
                let _ = tokio::time::timeout(LEAVE_TIME, self.engine.leave(&node)).await;
            }
            // Whoever does not know us any more may have forgotten more than that.
            self.returned = Some(Instant::now());
        }
    }

    fn tell(&self, node: &str, event: Event) {
        self.observer.observe(node, &[event]);
    }

    /// None: told to leave before it came to that.
    async fn join(&mut self) -> Result<Option<NodeId>> {
        let node = if guard("new-id") || self.standing.borrow().node.is_empty() {
            new_id()
        } else {
            self.standing.borrow().node.clone()
        };
        let join = Join {
            node: node.clone(),
            lanes: 1,
            lease_ms: self.settings.lease_ms(),
            step_ms: self.settings.step_ms(),
            seen: if guard("seen-join") {
                self.asks.wishes().seen
            } else {
                Seen::default()
            },
            birth: new_id(),
            host: self.host.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            concurrency: self.settings.concurrency,
        };
        loop {
            if self.asks.wishes().leave {
                return Ok(None);
            }
            match self.engine.join(&join).await {
                Ok(joined) => {
                    self.back(&node);
                    let next_number = join.seen.seq;
                    self.asks.wish(|wishes| wishes.seen.birth = joined.birth);
                    if joined.rewound {
                        self.tell(&node, Event::Rewound { next_number });
                    }
                    self.tell(&node, Event::Joined);
                    self.standing.send_modify(|standing| standing.node.clone_from(&node));
                    return Ok(Some(node));
                }
                Err(error) if error.is_away() => self.wait(&node, &error.to_string()).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Beats as this member, until it is none any more or is to leave.
    async fn serve(&mut self, node: &NodeId) -> Result<()> {
        loop {
            let wishes = self.asks.wishes();
            if wishes.leave || (wishes.abandon.as_ref() == Some(node) && guard("abandoned")) {
                return Ok(());
            }
            let beat = Beat {
                node: node.clone(),
                lease_ms: self.settings.lease_ms(),
                crown_ms: self.settings.crown_ms(),
                eligible: !(wishes.resign && guard("resign"))
                    && self.settings.may_generate()
                    && self.turns()
                    && self.has_settled_in(),
                rank: self.settings.prefer.rank(),
                seen: if guard("seen-beat") {
                    wishes.seen
                } else {
                    Seen::default()
                },
            };
            match self.engine.beat(&beat).await {
                Ok(Renewed::Alive(member)) => {
                    self.back(node);
                    let more = self.reap(node, &member).await | self.trim(node, &member).await || member.more_due;
                    let pause = if more { Duration::ZERO } else { self.pause(&member) };
                    self.stand(node, &member);
                    tokio::select! {
                        biased;
                        () = self.asks.beat_now.notified() => {}
                        () = tokio::time::sleep(pause) => {}
                    }
                }
                Ok(Renewed::Deposed) => return Ok(()),
                Err(error) if error.is_away() => self.wait(node, &error.to_string()).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the rest of the node has turned within a lease.
    fn turns(&mut self) -> bool {
        let (turns, now) = (self.asks.turns.load(Ordering::Relaxed), Instant::now());
        if turns != self.turned.0 {
            self.turned = (turns, now);
        }
        now < self.turned.1 + self.settings.lease
    }

    /// A store that was away may have come back without its last writes. Whoever saw them must have had the time to say
    /// so before anyone else is crowned and gives the same numbers again; who reigns has seen them all.
    fn has_settled_in(&self) -> bool {
        let returned = |at: Instant| Instant::now() < at + self.settings.lease;
        let lately = !self.backoff.is_fresh() || self.returned.is_some_and(returned);
        !lately || self.standing.borrow().reign.is_some()
    }

    /// When to beat again. Heirs come back right after the crown's lease ends, and often enough for the hive clock.
    fn pause(&self, member: &Member) -> Duration {
        let settings = &self.settings;
        let ms = if member.generator {
            settings.crown_ms() / 4
        } else if member.heir && guard("heir") {
            (member.crown_in_ms + 1).min(settings.step_ms())
        } else {
            settings.beat_ms()
        };
        Duration::from_millis(ms.max(1))
    }

    /// Takes note of what the store said, and tells of changes.
    fn stand(&self, node: &NodeId, member: &Member) {
        let now = Instant::now();
        self.meter.hears(member.wall_ms);
        self.meter.generates.store(member.generator, Ordering::Relaxed);
        let mut events = Vec::new();
        if member.rewound {
            events.push(Event::Rewound {
                next_number: member.seq,
            });
        }
        // The store went back in time after this beat was sent, to before what was seen meanwhile: the next one raises it.
        let behind = member.seq < self.asks.wishes().seen.seq;
        if guard("saw-beat") {
            self.asks.saw(member.seq);
        }
        self.asks
            .wishes
            .lock()
            .expect("nobody panics with the wishes in hand")
            .seen
            .epoch = member.epoch;
        self.standing.send_if_modified(|standing| {
            let before = standing.reign.as_ref().map(|reign| reign.epoch);
            let changed = standing.heir != member.heir || before != member.generator.then_some(member.epoch);
            standing.heir = member.heir;
            if standing.paused != member.paused {
                standing.paused = member.paused;
                events.push(match member.paused {
                    Paused {
                        generator: false,
                        handlers: false,
                    } => Event::Resumed,
                    Paused { generator, handlers } => Event::Paused { generator, handlers },
                });
            }
            let goes_on = before.is_some_and(|epoch| {
                if member.generator {
                    epoch == member.epoch || !guard("new-epoch")
                } else {
                    !guard("lost-crown")
                }
            });
            if let Some(epoch) = before.filter(|_| !goes_on) {
                standing.reign = None;
                events.push(Event::Deposed { epoch: Some(epoch) });
            }
            if member.generator && !goes_on && behind {
                self.asks.beat_now.notify_one();
            } else if member.generator && !goes_on {
                standing.reign = Some(Reign {
                    epoch: member.epoch,
                    seq: member.seq,
                    made: member.made,
                    grain: member.grain,
                    cursor: member.cursor.clone().unwrap_or_default(),
                    due: now + Duration::from_millis(member.due_in_ms.min(self.settings.interval_ms())),
                    wall_ms: member.wall_ms,
                    told: now,
                });
                self.meter.elections.fetch_add(1, Ordering::Relaxed);
                events.push(Event::Elected {
                    epoch: member.epoch,
                    next_number: member.seq,
                });
            }
            changed
        });
        if !events.is_empty() {
            self.observer.observe(node, &events);
        }
    }

    /// Gives up one silent node, if the store names one. True: there is more to hand on.
    async fn reap(&self, node: &NodeId, member: &Member) -> bool {
        let Some(victim) = member.victim.as_ref().filter(|_| guard("reap")) else {
            return false;
        };
        let reap = Reap {
            victim: victim.clone(),
            deliveries_max: self.settings.deliveries_max,
        };
        let Ok(reaped) = self.engine.reap(&reap).await else {
            return false;
        };
        let moved = reaped.redelivered + reaped.failed > 0;
        if moved || reaped.deposed {
            self.tell(
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

    /// Removes errors beyond as many as are to be kept. True: there are more of them.
    async fn trim(&self, node: &NodeId, member: &Member) -> bool {
        let Some(keep) = self.settings.errors_max.filter(|_| member.generator) else {
            return false;
        };
        // If the store does not answer, the next beat tries again.
        let gone = self.engine.trim(keep).await.unwrap_or_default();
        let (Some(first), Some(last)) = (gone.first(), gone.last()) else {
            return false;
        };
        self.tell(
            node,
            Event::Trimmed {
                errors: gone.len() as u64,
                first: *first,
                last: *last,
            },
        );
        gone.len() == TRIM_MAX
    }

    async fn leave(&mut self, node: &NodeId) -> Result<()> {
        loop {
            match self.engine.leave(node).await {
                Err(error) if error.is_away() => self.wait(node, &error.to_string()).await,
                done => return done,
            }
        }
    }

    /// The store is away: says so once, and waits a little longer each time.
    async fn wait(&mut self, node: &NodeId, reason: &str) {
        if self.backoff.is_fresh() {
            self.tell(
                node,
                Event::Away {
                    reason: reason.to_string(),
                },
            );
        }
        self.backoff.wait().await;
    }

    /// The store has answered.
    fn back(&mut self, node: &NodeId) {
        if !self.backoff.is_fresh() {
            self.backoff.reset();
            self.returned = Some(Instant::now());
            self.tell(node, Event::Reconnected);
        }
    }
}

/// Beats at once when the crown is given up, for as long as this node is an heir.
pub(crate) async fn watch_crown<E: Engine>(
    engine: Arc<E>,
    settings: Arc<Settings>,
    asks: Arc<Requests>,
    mut standing: watch::Receiver<Standing>,
) {
    let mut backoff = Backoff::new(&settings);
    while standing.wait_for(|standing| standing.heir).await.is_ok() {
        match engine
            .listen(Wake::Crown, Duration::from_millis(settings.beat_ms()))
            .await
        {
            Ok(rung) => {
                backoff.reset();
                if rung {
                    asks.beat_now.notify_one();
                }
            }
            Err(_) => backoff.wait().await,
        }
    }
}

/// Random, so that no incarnation is ever taken for another: 50 bits, easy to read.
pub(crate) fn new_id() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    (0..10).map(|_| char::from(ALPHABET[fastrand::usize(..32)])).collect()
}
