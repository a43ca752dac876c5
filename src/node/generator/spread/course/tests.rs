use super::*;

/// A sequence of messages 0, 1, 2, … whose cursor is the number of the next, over shards that lose, delay and apply; generators that die at any
/// moment; and shards that cannot be claimed for a while.
struct World {
    rng: fastrand::Rng,
    shards: Vec<Shard>,
    /// Shards have replicas, which lag behind, and take their places.
    replicated: bool,
    epoch: u64,
    /// How many claims there were: each has a token of its own.
    claims: u64,
}

#[derive(Default)]
struct Shard {
    token: u64,
    made: u64,
    record: Bytes,
    messages: Vec<u64>,
    away: bool,
    /// What replicas have of the messages, and of the records with the tokens under which they were sent.
    kept: usize,
    kept_made: u64,
    kept_record: Bytes,
    kept_token: u64,
}

/// Has no claim.
const NOBODY: u64 = u64::MAX;

impl Shard {
    /// Replicas get all that is there now.
    fn keep(&mut self) {
        (self.kept, self.kept_made) = (self.messages.len(), self.made);
        (self.kept_record, self.kept_token) = (self.record.clone(), self.token);
    }

    /// A replica takes its place. If others have seen how many messages were made, they say so: that ends the claim.
    fn go_back(&mut self, is_raised: bool) {
        self.messages.truncate(self.kept);
        (self.record, self.token) = (self.kept_record.clone(), self.kept_token);
        if is_raised {
            self.token = NOBODY;
        } else {
            self.made = self.kept_made;
        }
    }
}

/// A publish.
#[derive(Clone)]
struct Sent {
    shard: u32,
    token: u64,
    made: u64,
    messages: Vec<u64>,
    record: Bytes,
}

fn cursor(next: u64) -> Bytes {
    Bytes::from(next.to_string())
}

fn position(cursor: &Bytes) -> u64 {
    std::str::from_utf8(cursor).expect("digits").parse().unwrap_or(0)
}

impl World {
    fn new(seed: u64, shards: usize) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            shards: (0..shards).map(|_| Shard::default()).collect(),
            replicated: false,
            epoch: 0,
            claims: 0,
        }
    }

    /// As the store does it: fenced by the token, and applied once.
    fn apply(&mut self, sent: &Sent) -> bool {
        let shard = &mut self.shards[sent.shard as usize];
        if shard.away || shard.token != sent.token || shard.made != sent.made {
            return false;
        }
        shard.made += sent.messages.len() as u64;
        shard.messages.extend(&sent.messages);
        shard.record = sent.record.clone();
        if !self.replicated {
            shard.keep();
        }
        true
    }

    /// A claim counts when replicas have it.
    fn claim(&mut self, shard: usize) -> Option<Bytes> {
        let of = &mut self.shards[shard];
        if of.away {
            return None;
        }
        self.claims += 1;
        of.token = self.claims;
        of.keep();
        Some(of.record.clone())
    }

    /// Replicas get what some shard has; or one of them takes the shard's place. Returns which shard went back to before the claim that this token
    /// stands for, or lost what was published after it: it is claimed again.
    fn replicate(&mut self) -> Option<usize> {
        if !self.replicated {
            return None;
        }
        let shard = self.rng.usize(..self.shards.len());
        match self.rng.u8(..12) {
            0 => {
                let is_raised = self.rng.bool();
                self.shards[shard].go_back(is_raised);
                Some(shard)
            }
            1..6 => {
                self.shards[shard].keep();
                None
            }
            _ => None,
        }
    }

    /// What replicas have is there to stay.
    fn tell_kept(&self, course: &mut Course, untold: &mut [Vec<(u64, usize)>]) {
        for ((shard, untold), of) in (0..).zip(untold).zip(&self.shards) {
            for (serial, _) in untold.extract_if(.., |(_, behind)| *behind <= of.kept) {
                course.kept(shard, serial);
            }
        }
    }

    /// One reign: publishes for a while, and dies at any moment.
    fn reign(&mut self, steps: usize, late: &mut Vec<Sent>, calm: bool) {
        self.epoch += 1;
        let mut claims: Vec<Option<Bytes>> = vec![None; self.shards.len()];
        for (shard, claimed) in claims.iter_mut().enumerate() {
            *claimed = self.claim(shard);
            // What the generator before has sent may arrive between two claims.
            self.arrive(late);
            self.replicate();
        }
        let Some(mut course) = Course::begin(self.epoch, &claims).expect("readable") else {
            return;
        };
        let mut claimed: Vec<bool> = claims.iter().map(Option::is_some).collect();
        let mut tokens: Vec<u64> = self.shards.iter().map(|shard| shard.token.min(self.claims)).collect();
        let mut waits: Vec<Option<Sent>> = vec![None; self.shards.len()];
        // What is published and may be lost: the serial number of its record, and how many messages its shard has with it.
        let mut untold: Vec<Vec<(u64, usize)>> = vec![Vec::new(); self.shards.len()];
        for _ in 0..steps {
            if let Some(back) = self.replicate() {
                // The home shard has lost the end of the reign: another one begins.
                if back == 0 {
                    return;
                }
                course.overtake(u32::try_from(back).unwrap());
                claimed[back] = false;
                untold[back].clear();
            }
            self.tell_kept(&mut course, &mut untold);
            if !calm && self.rng.u8(..30) == 0 {
                let shard = self.rng.usize(1..self.shards.len());
                self.shards[shard].away ^= true;
            }
            for shard in 0..self.shards.len() {
                if !claimed[shard]
                    && let Some(claim) = self.claim(shard)
                {
                    course.claimed(u32::try_from(shard).unwrap(), serial(&claim).unwrap());
                    (claimed[shard], waits[shard]) = (true, None);
                    tokens[shard] = self.shards[shard].token;
                }
                // The same call again, until it is answered; or the shard is lost, and claimed anew.
                if let Some(sent) = waits[shard].clone() {
                    let is_there = self.shards[shard].made > sent.made;
                    if claimed[shard] && !self.shards[shard].away && (is_there || self.apply(&sent)) {
                        course.published(sent.shard);
                        untold[shard].push((serial(&sent.record).unwrap(), self.shards[shard].messages.len()));
                        waits[shard] = None;
                    } else if self.rng.u8(..8) == 0 {
                        claimed[shard] = false;
                    }
                }
            }
            let open = |shard: &usize| {
                claimed[*shard] && waits[*shard].is_none() && !course.is_shut(u32::try_from(*shard).unwrap())
            };
            let open: Vec<usize> = (0..self.shards.len()).filter(open).collect();
            if open.is_empty() {
                continue;
            }
            let shard = open[self.rng.usize(..open.len())];
            let (next, count) = (course.next(), self.rng.u64(1..4));
            let count = count.min(next.hole.unwrap_or(u64::MAX));
            let messages: Vec<u64> = (0..count).map(|i| position(&next.cursor) + i).collect();
            let (shard, made) = (u32::try_from(shard).unwrap(), self.shards[shard].made);
            let (record, serial) = course.send(shard, count, &cursor(position(&next.cursor) + count));
            let sent = Sent {
                shard,
                token: tokens[shard as usize],
                made,
                messages,
                record,
            };
            match self.rng.u8(..if calm { 1 } else { 12 }) {
                // Lost, or late.
                8.. if shard > 0 => {
                    if self.rng.bool() {
                        late.push(sent.clone());
                    }
                    waits[shard as usize] = Some(sent);
                    course.overtake(shard);
                }
                7 => {
                    // Others took its numbers.
                    course.refused(shard);
                }
                6 => {
                    // Applied, and the generator dies before it hears of it; or it is on its way still.
                    if self.rng.bool() {
                        self.apply(&sent);
                    } else {
                        late.push(sent);
                    }
                    return;
                }
                _ if self.apply(&sent) => {
                    course.published(shard);
                    untold[shard as usize].push((serial, self.shards[shard as usize].messages.len()));
                }
                _ if shard == 0 => return,
                _ => {
                    waits[shard as usize] = Some(sent);
                    course.overtake(shard);
                }
            }
        }
    }

    fn arrive(&mut self, late: &mut Vec<Sent>) {
        if !late.is_empty() && self.rng.bool() {
            let sent = late.swap_remove(self.rng.usize(..late.len()));
            self.apply(&sent);
        }
    }

    /// All messages, in order.
    fn published(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.shards.iter().flat_map(|shard| shard.messages.clone()).collect();
        all.sort_unstable();
        all
    }
}

/// Whether under this seed every message of the sequence is published once. With every other seed shards have replicas, which take their places without
/// having all.
fn is_exact(seed: u64) -> bool {
    let mut world = World::new(seed, 2 + usize::try_from(seed % 4).unwrap());
    world.replicated = seed / 4 % 2 == 1;
    let mut late = Vec::new();
    for _ in 0..world.rng.usize(1..12) {
        let steps = world.rng.usize(1..30);
        world.reign(steps, &mut late, false);
    }
    for shard in &mut world.shards {
        shard.away = false;
    }
    world.replicated = false;
    world.reign(60, &mut late, true);
    let all = world.published();
    let expected: Vec<u64> = (0..all.len() as u64).collect();
    all == expected && !all.is_empty()
}

#[test]
fn whatever_is_lost_late_or_away_every_message_of_the_sequence_is_published_once() {
    let failed: Vec<u64> = (0..20_000).filter(|seed| !is_exact(*seed)).collect();
    assert!(
        failed.is_empty(),
        "{} seeds failed, the first is {}",
        failed.len(),
        failed[0]
    );
}

#[cfg(feature = "mutants")]
#[test]
fn every_guard_of_the_course_is_missed_when_it_is_taken_out() {
    for name in [
        "claims-all",
        "doubt-known",
        "in-doubt",
        "told-open",
        "kept-doubt",
        "kept-open",
    ] {
        crate::mutants::take_out(Some(name));
        let missed = (0..20_000).any(|seed| !is_exact(seed));
        crate::mutants::take_out(None);
        assert!(missed, "{name}");
    }
}

#[test]
fn a_record_says_all_that_the_next_generator_needs() {
    let fresh = || Some(Bytes::new());
    let mut course = Course::begin(7, &[fresh(), fresh()]).unwrap().unwrap();
    course.send(1, 3, &cursor(3));
    course.overtake(1);
    let (record, _) = course.send(0, 2, &cursor(5));
    assert_eq!(Course::decode(&record).unwrap().closed, BTreeSet::from([1]));
    // The shard that did not answer is away still: it is begun without it, and what went there stays in doubt.
    let mut next = Course::begin(8, &[Some(record), None]).unwrap().unwrap();
    assert_eq!((next.made, next.first_missing(), next.is_shut(1)), (5, 0, true));
    assert_eq!(next.next().hole, None);
    assert_eq!(next.made_before(7), Some(0));
    // It comes back without it: that is made again, first.
    next.claimed(1, 0);
    assert_eq!(next.next().hole, Some(3));
    assert!(
        next.is_shut(1),
        "no other shard has a record that tells that it is open"
    );
    let (_, serial) = next.send(0, 3, &cursor(3));
    next.published(0);
    assert!(next.is_shut(1), "that one may be lost");
    next.kept(0, serial);
    assert_eq!((next.next().made, next.next().hole, next.is_shut(1)), (5, None, false));
}

#[test]
fn holes_that_follow_each_other_are_made_again_as_one() {
    let mut course = Course::begin(7, &[Some(Bytes::new()), Some(Bytes::new())])
        .unwrap()
        .unwrap();
    for from in [0, 3, 6, 9] {
        course.send(u32::from(from % 2 == 0), 3, &cursor(from + 3));
        course.published(u32::from(from % 2 == 0));
    }
    // The second shard went back to before all of it.
    course.claimed(1, 0);
    let next = course.next();
    assert_eq!((next.made, next.hole, position(&next.cursor)), (0, Some(3), 0));
    course.send(1, 2, &cursor(2));
    course.refused(1);
    assert_eq!((course.next().made, course.next().hole), (0, Some(3)));
    course.claimed(0, 0);
    assert_eq!((course.next().made, course.next().hole), (0, Some(12)));
}

#[test]
fn a_cursor_that_is_no_record_is_refused() {
    for bytes in [&b"7"[..], b"\x01\0\0\0", &[1; 40]] {
        assert!(Course::decode(&Bytes::copy_from_slice(bytes)).is_err());
    }
}

#[test]
fn a_shard_that_gets_nothing_new_and_is_away_keeps_no_reign_from_beginning() {
    let none = || Some(Bytes::new());
    let begin = |epoch, records: &[Option<Bytes>]| Course::begin(epoch, records).expect("readable");
    let mut course = begin(1, &[none(), none(), none()]).expect("all are claimed");
    course.retire(2, 3);
    assert!(course.is_shut(2) && !course.is_shut(1));
    let (record, _) = course.send(0, 1, &cursor(1));
    let mut next = begin(2, &[Some(record), none(), None]).expect("the third has no record that is higher");
    next.retire(2, 3);
    // It answers again, and is where it was.
    next.claimed(2, 0);
    let (record, _) = next.send(1, 1, &cursor(2));
    assert!(begin(3, &[none(), Some(record.clone()), None]).is_some());
    // After another reshard it is used again, once another shard has a record that says so.
    let mut used = begin(4, &[none(), Some(record), none()]).expect("all are claimed");
    assert!(used.is_shut(2));
    let (record, serial) = used.send(0, 1, &cursor(3));
    used.published(0);
    used.kept(0, serial);
    assert!(!used.is_shut(2));
    assert!(begin(5, &[Some(record), none(), None]).is_none(), "it may know more");
}
