//! Ports for servers of our own.
//!
//! A port that the system picks may be taken in the next moment, by whoever connects to anything. Those here are below the ones that
//! it gives away; nobody takes them who does not ask for them by number.

use std::io;
use std::net::TcpListener;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A cluster's servers talk to each other at their port and so much. Those of ports here are no ports here.
pub(super) const BUS: u16 = 10_000;
const FIRST: u16 = 10_240;
const LAST: u16 = FIRST + BUS - 1;
/// Where the system begins to give ports away, if it does not say: Linux.
const GIVEN_AWAY: u16 = 32_768;
/// With fewer than so many the system's own choice is the better one.
const FEWEST: u16 = 1000;

/// Each process begins somewhere else, so that several of them hardly ever look at the same ports.
static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(fastrand::u32(..)));

/// A port of loopback on which nobody listens, and neither does anybody 10,000 above. This process is not given the same one soon.
pub fn free() -> io::Result<u16> {
    let ports = LAST.min(given_away().saturating_sub(BUS + 1)).saturating_sub(FIRST - 1);
    let tries = if ports < FEWEST { 0 } else { ports };
    for _ in 0..tries {
        let drawn = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(ports);
        let port = FIRST + u16::try_from(drawn).expect("below the number of ports");
        if is_free(port) && is_free(port + BUS) {
            return Ok(port);
        }
    }
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// The first port that the system gives to whoever asks for any.
fn given_away() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok());
    first.unwrap_or(GIVEN_AWAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_one_that_the_system_does_not_give_away_and_no_two_are_the_same() {
        let ports: Vec<u16> = (0..50).map(|_| free().expect("a port")).collect();
        let mut distinct = ports.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), ports.len(), "{ports:?}");
        if given_away() >= GIVEN_AWAY {
            assert!(ports.iter().all(|port| (FIRST..=LAST).contains(port)), "{ports:?}");
        }
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_not_free() {
        let taken: Vec<_> = (0..5)
            .map(|_| TcpListener::bind(("127.0.0.1", free().expect("a port"))).expect("free"))
            .collect();
        // Once around: each of them is looked at.
        let ports: Vec<u16> = (0..LAST - FIRST).map(|_| free().expect("a port")).collect();
        for listener in taken {
            let port = listener.local_addr().expect("bound").port();
            assert!(!ports.contains(&port), "{port}");
        }
    }
}
