//! Which server has the queue now: the address of a URL, what a cluster's redirections say, or what sentinels say.
//!
//! A queue is on one server at a time, so all that is missing after a failover is an address. Nothing here goes by time: an address
//! is doubted when a call fails there, and left when a reply says so. A call that was on its way is repeated by the node that
//! made it, as after any lost connection.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::ConnectionInfo;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::link::Server;
use super::place::{HostPort, Place, Sentinels, Tls, Via, host_port, shown};
use super::sentinel;
use crate::error::Result;

/// What sentinels said so lately serves the other connections of a node, too: all of them are made anew at the same time.
const FRESH: Duration = Duration::from_millis(50);
/// How many servers of a cluster are remembered, whatever one of them tells.
const MEMBERS_MAX: usize = 1000;

/// Shared by all connections of a node.
pub(super) struct Locator {
    place: Place,
    /// How long a sentinel may take.
    timeout: Duration,
    /// Where the queue was found, unless it is where the URL says.
    now: watch::Sender<Found>,
    /// A call failed where the queue was found: ask again.
    in_doubt: AtomicBool,
    /// Servers of the cluster, besides those of the URL.
    members: Mutex<Vec<HostPort>>,
    is_cluster: AtomicBool,
    /// Whom to ask first: another one each time.
    turn: AtomicUsize,
    asked: tokio::sync::Mutex<Option<(Instant, sentinel::Answer)>>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Locator {
    fn drop(&mut self) {
        if let Some(listener) = &*self.listener.lock().unwrap_or_else(PoisonError::into_inner) {
            listener.abort();
        }
    }
}

/// Where the queue was found, and how often that has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    changes: u64,
    at: Option<HostPort>,
    /// How new the word of the sentinels is: an older one is not believed while the server is well.
    epoch: u64,
}

/// Where to connect: to the first of these that answers.
pub(super) struct Targets {
    pub(super) infos: Vec<ConnectionInfo>,
    /// The connection is good for as long as this is how often the place has changed.
    pub(super) changes: u64,
}

impl Locator {
    pub(super) fn new(server: &Server) -> Arc<Self> {
        Arc::new(Self {
            place: server.place.clone(),
            timeout: server.answer_timeout.max(sentinel::ANSWER_MIN),
            now: watch::Sender::default(),
            in_doubt: AtomicBool::new(false),
            members: Mutex::default(),
            is_cluster: AtomicBool::new(server.place.via == Via::Cluster),
            turn: AtomicUsize::new(0),
            asked: tokio::sync::Mutex::default(),
            listener: Mutex::default(),
        })
    }

    pub(super) fn tls(&self) -> &Tls {
        &self.place.tls
    }

    /// Whether a server that calls itself a replica may be where the queue is looked for: a cluster's replicas redirect.
    pub(super) fn replicas_redirect(&self) -> bool {
        self.is_cluster.load(Ordering::Relaxed)
    }

    pub(super) fn has_sentinels(&self) -> bool {
        matches!(self.place.via, Via::Sentinel(_))
    }

    /// Where the queue is now, for people; none if that is where the URL says.
    pub(super) fn shown(&self) -> Option<String> {
        self.now.borrow().at.as_ref().map(shown)
    }

    /// The server where the queue was found.
    #[cfg(feature = "cli")]
    pub(super) fn primary(&self) -> ConnectionInfo {
        let at = self.now.borrow().at.clone();
        at.map_or_else(|| self.place.info.clone(), |at| self.place.elsewhere(&at))
    }

    /// One server of a cluster alone.
    #[cfg(feature = "cli")]
    pub(super) fn alone(&self, at: &HostPort) -> Place {
        Place {
            info: self.place.elsewhere(at),
            others: Vec::new(),
            via: Via::Address,
            tls: self.place.tls.clone(),
        }
    }

    /// Where to connect now.
    pub(super) async fn targets(self: &Arc<Self>) -> Result<Targets> {
        if let Via::Sentinel(sentinels) = &self.place.via {
            let mut asked = self.asked.lock().await;
            let answer = match &*asked {
                Some((at, answer)) if at.elapsed() < FRESH => answer.clone(),
                _ => {
                    let answer = sentinel::primary(&self.place, sentinels, self.timeout).await?;
                    *asked = Some((Instant::now(), answer.clone()));
                    answer
                }
            };
            self.told_by_sentinels(answer);
            self.listen(sentinels.clone());
            // What is known now: an announcement may have come meanwhile.
            let Found { at, changes, .. } = self.now.borrow().clone();
            let infos = at.iter().map(|at| self.place.elsewhere(at)).collect();
            return Ok(Targets { infos, changes });
        }
        let Found { at, changes, .. } = self.now.borrow().clone();
        let infos = match at {
            at if self.in_doubt.load(Ordering::Relaxed) => self.candidates(at.as_ref()),
            Some(at) => vec![self.place.elsewhere(&at)],
            None => std::iter::once(self.place.info.clone())
                .chain(self.place.others.iter().map(|other| self.place.elsewhere(other)))
                .collect(),
        };
        Ok(Targets { infos, changes })
    }

    /// All servers that may know, each time another one first: one that is cut off from the others would answer for ever.
    fn candidates(&self, at: Option<&HostPort>) -> Vec<ConnectionInfo> {
        let mut all = self.place.seeds();
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        for member in members.iter().chain(at) {
            if !all.contains(member) {
                all.push(member.clone());
            }
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % all.len().max(1);
        all.rotate_left(first);
        all.iter().map(|member| self.place.elsewhere(member)).collect()
    }

    pub(super) fn changes(&self) -> u64 {
        self.now.borrow().changes
    }

    /// Returns when the queue is elsewhere than at this change.
    pub(super) async fn changed_since(&self, changes: u64) {
        let mut now = self.now.subscribe();
        // The sender is this one.
        let _ = now.wait_for(|found| found.changes != changes).await;
    }

    /// A reply says where the queue is.
    fn set(&self, found: HostPort, epoch: u64) {
        self.in_doubt.store(false, Ordering::Relaxed);
        self.now.send_if_modified(|now| {
            let differs = epoch >= now.epoch && now.at.as_ref() != Some(&found);
            if differs {
                now.changes += 1;
                now.at = Some(found);
            }
            now.epoch = now.epoch.max(epoch);
            differs
        });
    }

    fn told_by_sentinels(&self, answer: sentinel::Answer) {
        self.set(answer.primary, answer.epoch);
    }

    /// The server says that another one has the queue. An empty host is the one that was asked.
    pub(super) fn redirect(&self, asked: &ConnectionInfo, to: HostPort) {
        self.is_cluster.store(true, Ordering::Relaxed);
        let (host, port) = to;
        let host = match host_port(asked.addr()) {
            Some((asked, _)) if host.is_empty() => asked,
            _ => host,
        };
        self.set((host, port), 0);
    }

    /// A call failed there, or the server says that it is no primary. Where there is one address, there is nothing to ask.
    pub(super) fn doubt(&self, changes: u64) {
        if self.changes() != changes {
            return;
        }
        if self.is_cluster.load(Ordering::Relaxed) {
            self.in_doubt.store(true, Ordering::Relaxed);
        }
        // Sentinels that were set up anew count from the beginning: their word must be good enough to leave a server that is gone.
        self.now.send_if_modified(|now| {
            now.epoch = 0;
            false
        });
    }

    /// A call was carried out there: that ends a doubt.
    pub(super) fn served(&self, by: &ConnectionInfo) {
        if self.in_doubt.load(Ordering::Relaxed)
            && let Some(by) = host_port(by.addr())
        {
            self.set(by, 0);
        }
    }

    /// The servers of the cluster that one of them tells of.
    pub(super) fn remember(&self, members: &[HostPort]) {
        self.is_cluster.store(true, Ordering::Relaxed);
        // One that may not tell takes nothing away.
        if !members.is_empty() {
            let mut known = self.members.lock().unwrap_or_else(PoisonError::into_inner);
            known.clear();
            known.extend(members.iter().take(MEMBERS_MAX).cloned());
        }
    }

    /// Sentinels tell of a new primary as soon as there is one; notifications get lost, so that each connect asks again.
    fn listen(self: &Arc<Self>, sentinels: Sentinels) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        // The runtime that it ran on may be gone.
        if listener.as_ref().is_some_and(|listener| !listener.is_finished()) {
            return;
        }
        let (weak, place, timeout) = (Arc::downgrade(self), self.place.clone(), self.timeout);
        *listener = Some(tokio::spawn(async move {
            let found = |answer| weak.upgrade().map(|locator| locator.told_by_sentinels(answer));
            sentinel::listen(place, sentinels, timeout, found).await;
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::any::StoreUrl;
    use crate::settings::Settings;

    fn locator() -> Arc<Locator> {
        let Ok(StoreUrl::Redis(url)) = StoreUrl::parse("redis+sentinel://s/queen") else {
            panic!("a URL")
        };
        let place = url.place().expect("a place");
        Locator::new(&Server::new(place, "here".into(), &Settings::default()))
    }

    fn say(locator: &Locator, host: &str, epoch: u64) -> (String, u64) {
        locator.told_by_sentinels(sentinel::Answer {
            primary: (host.into(), 1),
            epoch,
        });
        (locator.shown().expect("it was told"), locator.changes())
    }

    #[test]
    fn an_older_word_of_the_sentinels_does_not_lead_back_unless_the_server_is_in_doubt() {
        let locator = locator();
        assert_eq!(say(&locator, "a", 4), ("a:1".into(), 1));
        assert_eq!(say(&locator, "b", 5), ("b:1".into(), 2));
        assert_eq!(say(&locator, "a", 4), ("b:1".into(), 2), "it came late");
        // A call that failed before that says nothing about the server of now.
        locator.doubt(1);
        assert_eq!(say(&locator, "a", 4), ("b:1".into(), 2));
        // The server is gone, and so are the sentinels that knew it: new ones count from the beginning.
        locator.doubt(2);
        assert_eq!(say(&locator, "c", 0), ("c:1".into(), 3));
    }
}
