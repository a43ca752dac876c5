//! By what others see that a node is there: a subscription on its control connection, to a channel that nobody ever publishes
//! to. When the process dies, its kernel closes the connection, and the server knows at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, ProtocolVersion, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};

use super::super::stream;
use super::{Link, Open};
use crate::error::Result;

/// A connection that is lost so often within [`CALM`] is one that others would be misled by: the node is not seen for that long, and
/// leases tell of it.
const LOSSES_MAX: usize = 3;
/// So many times as long as an answer may take.
const CALM: u32 = 20;
/// So many subscriptions in a row that are not answered are taken for a refusal: there are proxies that close the connection.
const UNANSWERED_MAX: usize = 2;
/// What the server says faster than it is read is dropped.
const PUSHES_MAX: usize = 16;

/// The subscriptions of one link.
pub(in super::super) struct Signs {
    /// The channel of a node is this and its id.
    alive: String,
    /// Rung when the crown is given up.
    crown: String,
    calm: Duration,
    state: Mutex<State>,
    rung: Notify,
    lost: Notify,
}

#[derive(Default)]
struct State {
    /// The channels that are to be held.
    wanted: BTreeSet<String>,
    /// Those that are, on the connection with this number.
    held: BTreeSet<String>,
    on: u64,
    /// The last connection that was lost.
    lost: u64,
    losses: VecDeque<Instant>,
    /// How many listen at a channel, and what wakes them.
    ears: BTreeMap<String, (usize, Arc<Notify>)>,
    /// Until then no node is shown.
    rests: Option<Instant>,
    /// Whether the server lets it; unknown before it was tried.
    works: Option<bool>,
    /// How many subscriptions in a row were not answered.
    unanswered: usize,
    /// Until then nobody is looked at: the server has refused a look.
    blind: Option<Instant>,
}

impl State {
    /// Another connection holds nothing yet.
    fn come_to(&mut self, serial: u64) {
        if self.on != serial {
            self.on = serial;
            self.held.clear();
        }
    }

    fn is_lost(&self) -> bool {
        self.on > 0 && self.lost == self.on
    }
}

impl Signs {
    pub(in super::super) fn new(alive: &str, crown: &str, answer_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            alive: alive.to_string(),
            crown: crown.to_string(),
            calm: answer_timeout * CALM,
            state: Mutex::default(),
            rung: Notify::new(),
            lost: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in super::super) fn channel(&self, node: &str) -> String {
        format!("{}{node}", self.alive)
    }

    /// True: that is a change.
    pub(in super::super) fn show(&self, node: &str, shows: bool) -> bool {
        let channel = self.channel(node);
        let mut state = self.state();
        if shows {
            state.wanted.insert(channel)
        } else {
            state.wanted.remove(&channel)
        }
    }

    /// True: from now on.
    pub(in super::super) fn hear_the_crown(&self) -> bool {
        self.state().wanted.insert(self.crown.clone())
    }

    /// Whether rings for the crown come this way.
    pub(in super::super) fn hears_the_crown(&self) -> bool {
        let state = self.state();
        state.held.contains(&self.crown) && !state.is_lost()
    }

    /// Listens at a channel, from the next [`Link::keep_signs`] on.
    pub(in super::super) fn listen_at(self: &Arc<Self>, channel: &str) -> Ear {
        let mut state = self.state();
        state.wanted.insert(channel.to_string());
        let (listeners, rung) = state.ears.entry(channel.to_string()).or_default();
        *listeners += 1;
        Ear {
            rung: rung.clone(),
            channel: channel.to_string(),
            signs: self.clone(),
        }
    }

    /// Whether what is said at a channel comes here.
    pub(in super::super) fn hears(&self, channel: &str) -> bool {
        let state = self.state();
        state.held.contains(channel) && !state.is_lost()
    }

    fn hears_from(&self, channel: Option<&Value>) {
        let ear = match channel {
            Some(Value::BulkString(name)) => str::from_utf8(name).ok().and_then(|name| {
                let state = self.state();
                state.ears.get(name).map(|(_, rung)| rung.clone())
            }),
            _ => None,
        };
        match ear {
            Some(rung) => rung.notify_waiters(),
            None => self.rung.notify_one(),
        }
    }

    /// Whether the server tells who is there, as far as is known.
    pub(in super::super) fn tells(&self, now: Instant) -> bool {
        let state = self.state();
        state.works == Some(true) && state.blind.is_none_or(|until| until <= now)
    }

    /// A look is refused: tried again after some time.
    pub(in super::super) fn refused_a_look(&self, now: Instant) {
        self.state().blind = Some(now + self.calm);
    }

    /// Returns when the crown is given up.
    pub(in super::super) async fn rung(&self) {
        self.rung.notified().await;
    }

    /// Returns when the connection on which they are held is lost.
    pub(in super::super) async fn lost(&self) {
        loop {
            let mut lost = std::pin::pin!(self.lost.notified());
            lost.as_mut().enable();
            if self.state().is_lost() {
                return;
            }
            lost.await;
        }
    }

    /// Takes in what the server says unasked on one connection, until that ends.
    fn hear(self: &Arc<Self>, serial: u64, mut pushes: mpsc::Receiver<PushInfo>) {
        let signs = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(push) = pushes.recv().await {
                let Some(signs) = signs.upgrade() else { return };
                match push.kind {
                    PushKind::Message => signs.hears_from(push.data.first()),
                    PushKind::Disconnection => break,
                    _ => {}
                }
            }
            if let Some(signs) = signs.upgrade() {
                signs.loses(serial, Instant::now());
            }
        });
    }

    fn loses(&self, serial: u64, now: Instant) {
        let mut state = self.state();
        // Others were given up before anything was held on them.
        if state.on != serial || state.is_lost() {
            return;
        }
        state.lost = serial;
        if !state.held.is_empty() {
            state.losses.retain(|at| now < *at + self.calm);
            state.losses.push_back(now);
            if state.losses.len() >= LOSSES_MAX {
                state.losses.clear();
                state.rests = Some(now + self.calm);
            }
        }
        drop(state);
        self.lost.notify_waiters();
    }

    /// What is to be sent on this connection: channels to subscribe to, and to leave.
    fn due(&self, serial: u64, now: Instant) -> (Vec<String>, Vec<String>) {
        let mut state = self.state();
        state.come_to(serial);
        if state.works == Some(false) && state.rests.is_none_or(|until| now < until) {
            return (Vec::new(), Vec::new());
        }
        let rests = state.rests.is_some_and(|until| now < until);
        let may = |channel: &str| !rests || channel == self.crown;
        let held = |channel: &&String| !state.held.contains(*channel) && may(channel);
        let wanted = state.wanted.iter().filter(held).cloned().collect();
        let left = state.held.difference(&state.wanted).cloned().collect();
        (wanted, left)
    }

    fn answered(&self, serial: u64, channel: String, holds: bool) {
        let mut state = self.state();
        state.come_to(serial);
        (state.works, state.unanswered) = (Some(true), 0);
        if holds {
            state.held.insert(channel);
        } else {
            state.held.remove(&channel);
        }
    }

    /// It is refused: tried again after some time.
    fn refused(&self, now: Instant) {
        let mut state = self.state();
        state.works = Some(false);
        state.rests = Some(now + self.calm);
    }

    /// The connection was lost, or was silent for too long, before there was an answer: tried again on another one.
    fn unanswered(&self, now: Instant) {
        let in_a_row = {
            let mut state = self.state();
            state.unanswered = state.unanswered.saturating_add(1);
            state.unanswered
        };
        if in_a_row >= UNANSWERED_MAX {
            self.refused(now);
        }
    }

    /// Whether a connection is to be one on which the server may speak unasked.
    pub(super) fn wants_pushes(&self, now: Instant) -> bool {
        let state = self.state();
        state.works != Some(false) || state.rests.is_some_and(|until| until <= now)
    }
}

/// Someone who listens at a channel.
pub(in super::super) struct Ear {
    signs: Arc<Signs>,
    channel: String,
    rung: Arc<Notify>,
}

impl Ear {
    /// Returns when something is said there.
    pub(in super::super) fn rung(&self) -> Notified<'_> {
        self.rung.notified()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let mut state = self.signs.state();
        let left = state.ears.get_mut(&self.channel).map(|(listeners, _)| {
            *listeners -= 1;
            *listeners
        });
        if left == Some(0) {
            state.ears.remove(&self.channel);
            state.wanted.remove(&self.channel);
        }
    }
}

/// How a connection is opened on which the server may speak unasked.
pub(super) fn pushing(info: &redis::ConnectionInfo) -> redis::ConnectionInfo {
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    info.clone().set_redis_settings(settings)
}

impl Link {
    /// Connects so that the server may speak unasked, if it lets us and that is wanted.
    pub(super) async fn connect_stream(
        &self,
        info: &redis::ConnectionInfo,
        serial: u64,
    ) -> RedisResult<stream::Connection> {
        if let Some(signs) = self.signs.as_ref().filter(|signs| signs.wants_pushes(Instant::now())) {
            let (sender, pushes) = mpsc::channel(PUSHES_MAX);
            match stream::connect_counted(
                &pushing(info),
                self.locator.tls(),
                Some(sender),
                &self.flow,
                self.answer_timeout,
            )
            .await
            {
                Ok(connection) => {
                    signs.hear(serial, pushes);
                    return Ok(connection);
                }
                // It may not know this protocol.
                Err(error) if error.is_io_error() => return Err(error),
                Err(_) => signs.refused(Instant::now()),
            }
        }
        stream::connect_counted(info, self.locator.tls(), None, &self.flow, self.answer_timeout).await
    }

    /// Holds the subscriptions that are wanted, on the connection that is there. What is refused is not needed: leases do as well.
    pub(in super::super) async fn keep_signs(&self) -> Result<()> {
        let Some(signs) = &self.signs else { return Ok(()) };
        let Some(mut open) = self.hearing(signs).await? else {
            return Ok(());
        };
        let (wanted, left) = signs.due(open.serial, Instant::now());
        let all = [
            (redis::cmd("SUBSCRIBE"), wanted, true),
            (redis::cmd("UNSUBSCRIBE"), left, false),
        ];
        for (cmd, channels, holds) in all {
            for channel in channels {
                match self.send_sign(&mut open, cmd.clone().arg(&channel)).await {
                    Some(true) => signs.answered(open.serial, channel, holds),
                    Some(false) => {
                        signs.refused(Instant::now());
                        return Ok(());
                    }
                    // What comes later would be taken for another answer.
                    None => {
                        if open.changes == self.locator.changes() {
                            signs.unanswered(Instant::now());
                        }
                        self.drop(&open).await;
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The connection, if the server may speak on it. One that was made without is made anew when it is time to try again: after a
    /// subscription it would take no calls any more.
    async fn hearing(&self, signs: &Signs) -> Result<Option<Open>> {
        let mut open = self.connection().await?;
        if !open.connection.hears && signs.wants_pushes(Instant::now()) {
            self.drop(&open).await;
            open = self.connection().await?;
        }
        Ok(Some(open).filter(|open| open.connection.hears))
    }

    /// Whether the server did it; none: it did not answer.
    async fn send_sign(&self, open: &mut Open, cmd: &Cmd) -> Option<bool> {
        let stream::Connection { redis, flow, .. } = &mut open.connection;
        let answer = redis.send_packed_command(cmd);
        let answer = self.wait_for((open.changes, flow), self.answer_timeout, answer);
        match answer.await {
            Ok(answer) => Some(answer.extract_error().is_ok()),
            Err(error) if error.is_io_error() => None,
            Err(_) => Some(false),
        }
    }

    /// The number of the connection that is used.
    pub(in super::super) fn serial(&self) -> u64 {
        self.current.load(Ordering::Relaxed)
    }

    pub(in super::super) fn signs(&self) -> Option<&Arc<Signs>> {
        self.signs.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Duration = Duration::from_secs(1);

    fn holding(signs: &Signs, serial: u64, now: Instant) -> bool {
        let (wanted, _) = signs.due(serial, now);
        for channel in &wanted {
            signs.answered(serial, channel.clone(), true);
        }
        !wanted.is_empty()
    }

    #[test]
    fn a_connection_that_is_lost_again_and_again_shows_nobody_for_a_while() {
        let (signs, start) = (Signs::new("alive:", "crown", ANSWER), Instant::now());
        signs.show("a", true);
        for serial in 1..=3 {
            assert!(holding(&signs, serial, start), "{serial}");
            signs.loses(serial, start);
        }
        assert!(!holding(&signs, 4, start));
        // Whoever rests may hear all the same.
        assert!(signs.hear_the_crown() && !signs.hear_the_crown());
        assert_eq!(signs.due(4, start).0, ["crown"]);
        let later = start + ANSWER * CALM;
        assert!(holding(&signs, 4, later));
        assert!(signs.hears_the_crown());
    }

    #[test]
    fn losses_now_and_then_change_nothing() {
        let (signs, start) = (Signs::new("alive:", "crown", ANSWER), Instant::now());
        signs.show("a", true);
        for serial in 1..20 {
            let now = start + ANSWER * CALM / 2 * u32::try_from(serial).expect("small");
            assert!(holding(&signs, serial, now), "{serial}");
            signs.loses(serial, now);
        }
    }

    #[test]
    fn a_subscription_that_is_not_answered_is_made_again_and_is_refused_if_that_happens_again() {
        let (signs, start) = (Signs::new("alive:", "crown", ANSWER), Instant::now());
        signs.show("a", true);
        signs.unanswered(start);
        assert!(signs.wants_pushes(start) && holding(&signs, 2, start));
        signs.loses(2, start);
        for _ in 0..UNANSWERED_MAX {
            assert!(signs.wants_pushes(start));
            signs.unanswered(start);
        }
        assert!(!signs.wants_pushes(start) && !holding(&signs, 3, start));
        let later = start + ANSWER * CALM;
        assert!(signs.wants_pushes(later));
        signs.unanswered(later);
        assert!(!signs.wants_pushes(later), "it is still the same proxy");
    }

    #[test]
    fn a_look_that_is_refused_is_tried_again_later_and_takes_no_subscription_away() {
        let (signs, start) = (Signs::new("alive:", "crown", ANSWER), Instant::now());
        signs.show("a", true);
        assert!(!signs.tells(start));
        assert!(holding(&signs, 1, start) && signs.tells(start));
        signs.refused_a_look(start);
        assert!(!signs.tells(start) && signs.wants_pushes(start) && signs.hears("alive:a"));
        assert!(signs.tells(start + ANSWER * CALM));
    }

    #[test]
    fn what_is_refused_is_tried_again_later_and_who_left_is_shown_no_more() {
        let (signs, start) = (Signs::new("alive:", "crown", ANSWER), Instant::now());
        signs.show("a", true);
        signs.refused(start);
        assert!(!holding(&signs, 1, start) && !signs.wants_pushes(start));
        let later = start + ANSWER * CALM;
        assert!(signs.wants_pushes(later) && holding(&signs, 2, later));
        signs.show("a", false);
        signs.show("b", true);
        assert_eq!(signs.due(2, later), (vec!["alive:b".into()], vec!["alive:a".into()]));
        assert_eq!(
            signs.due(3, later),
            (vec!["alive:b".into()], vec![]),
            "another connection"
        );
    }
}
