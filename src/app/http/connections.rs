//! Who is connected. Places are few; when all are taken, a newcomer gets the place of another: of a connection of the peer that
//! has most, of one that was not admitted yet, and of the one that has been quiet for longest. So nobody can lock others out,
//! neither by connections that do nothing, send slowly or never read, nor by many busy ones. A health check is the newest
//! connection of all, and the last of its kind to lose its place.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// Connections at once.
pub(super) const CONNECTIONS_MAX: usize = 128;

/// One connection, as the others see it.
pub(super) struct Connection {
    peer: IpAddr,
    opened: Instant,
    /// When bytes last moved, in microseconds since it was opened.
    moved_us: AtomicU64,
    admitted: AtomicBool,
    lost_place: Notify,
}

impl Connection {
    fn new(peer: IpAddr) -> Self {
        Self {
            peer: network(peer),
            opened: Instant::now(),
            moved_us: AtomicU64::new(0),
            admitted: AtomicBool::new(false),
            lost_place: Notify::new(),
        }
    }

    /// Bytes were read or written.
    pub(super) fn moved(&self) {
        let us = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.moved_us.store(us, Ordering::Relaxed);
    }

    /// Its client has shown that it may ask.
    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }

    fn last_moved(&self) -> Instant {
        self.opened + std::time::Duration::from_micros(self.moved_us.load(Ordering::Relaxed))
    }

    /// Returns when somebody else got its place.
    pub(super) async fn lost_place(&self) {
        self.lost_place.notified().await;
    }
}

/// Whoever has one address of an IPv6 network has all of them.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::from(segments)
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[derive(Default)]
pub(super) struct Connections(Mutex<Vec<Arc<Connection>>>);

impl Connections {
    /// A place for a newcomer, which another may lose for it. It is free again when the place is dropped.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Place {
        let mut all = self.lock();
        if all.len() >= CONNECTIONS_MAX
            && let Some(at) = next_to_go(&all)
        {
            all.swap_remove(at).lost_place.notify_one();
        }
        let connection = Arc::new(Connection::new(peer));
        all.push(connection.clone());
        Place {
            connection,
            all: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose place a newcomer gets.
fn next_to_go(all: &[Arc<Connection>]) -> Option<usize> {
    let mut of_peer: HashMap<IpAddr, usize> = HashMap::new();
    for connection in all {
        *of_peer.entry(connection.peer).or_default() += 1;
    }
    let most = of_peer.values().copied().max()?;
    let candidates = all.iter().enumerate();
    let candidates = candidates.filter(|(_, connection)| of_peer[&connection.peer] == most);
    let next =
        candidates.min_by_key(|(_, connection)| (connection.admitted.load(Ordering::Relaxed), connection.last_moved()));
    next.map(|(at, _)| at)
}

/// Held by who serves a connection.
pub(super) struct Place {
    pub(super) connection: Arc<Connection>,
    all: Arc<Connections>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.lock().retain(|other| !Arc::ptr_eq(other, &self.connection));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn peer(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Whether it has lost its place.
    async fn lost(place: &Place) -> bool {
        tokio::time::timeout(Duration::ZERO, place.connection.lost_place())
            .await
            .is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_that_has_most_loses_first_what_was_not_admitted_and_has_been_quiet_for_longest() {
        let connections = Arc::new(Connections::default());
        let old_but_single = connections.admit(peer("10.0.0.1"));
        let mut many = Vec::new();
        for _ in 1..CONNECTIONS_MAX {
            tokio::time::advance(Duration::from_millis(1)).await;
            many.push(connections.admit(peer("10.0.0.2")));
        }
        tokio::time::advance(Duration::from_millis(1)).await;
        many[0].connection.moved();
        many[1].connection.admit();
        let newcomer = connections.admit(peer("10.0.0.2"));
        assert!(lost(&many[2]).await, "it had been quiet for longest");
        assert!(!lost(&many[0]).await && !lost(&many[1]).await);
        assert!(!lost(&old_but_single).await && !lost(&newcomer).await);
        assert_eq!(connections.lock().len(), CONNECTIONS_MAX);
        drop(many);
        assert_eq!(connections.lock().len(), 2, "places are free again");
    }

    #[test]
    fn a_network_of_ipv6_addresses_is_one_peer() {
        assert_eq!(network(peer("2001:db8:1:2::1")), network(peer("2001:db8:1:2:ffff::9")));
        assert_ne!(network(peer("2001:db8:1:2::1")), network(peer("2001:db8:1:3::1")));
        assert_eq!(network(peer("::ffff:10.0.0.1")), peer("10.0.0.1"));
        assert_ne!(network(peer("10.0.0.1")), network(peer("10.0.0.2")));
    }
}
