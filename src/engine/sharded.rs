//! One queue over many stores: each shard is a queue of its own, and the first is the home shard.
//!
//! A node works on each shard by itself ([`Engine::shards`]): so that a shard that is away costs its own messages a wait and nothing else.
//! What looks at the queue as a whole, or works on it from outside, is answered here, from all shards.
//!
//! **Numbers.** Each shard has a range of [`SHARD_NUMBERS`] numbers: that of shard `s` begins at `s × SHARD_NUMBERS`. So no number comes
//! twice, a shard numbers without a gap and without asking another, and a number tells its shard.

mod groups;
mod pushes;
mod reshard;
mod rounds;
mod verbs;
mod whole;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures_util::future::join_all;

use super::{Engine, NodeId, NodeStatus};
use crate::error::{Error, Result};
use crate::settings::Names;

/// How many numbers a shard has: ten million a second for eleven days, or a thousand a second for three centuries.
pub const SHARD_NUMBERS: u64 = 10_000_000_000_000;
/// The most shards of a queue.
pub const SHARDS_MAX: usize = Names::SHARDS_MAX as usize;

/// The number of the first message of a shard.
#[must_use]
pub fn first_number(shard: usize) -> u64 {
    shard as u64 * SHARD_NUMBERS
}

/// The shard of a message.
#[must_use]
pub fn shard_of(number: u64) -> usize {
    usize::try_from(number / SHARD_NUMBERS).unwrap_or(usize::MAX)
}

/// The process of a node: its members in all shards are named after it.
#[must_use]
pub fn process_of(node: &str) -> &str {
    node.split(['-', '.']).next().unwrap_or(node)
}

/// The shard in which a node has this name.
#[must_use]
pub fn shard_of_node(node: &str) -> usize {
    let shard = node
        .split_once('-')
        .map(|(_, rest)| rest.split('.').next().unwrap_or(rest));
    shard.and_then(|shard| shard.parse().ok()).unwrap_or(0)
}

/// The shard of a group: all of its messages are there, so that their order is kept. The same in every process and version.
#[must_use]
pub fn shard_of_group(group: &str, shards: usize) -> usize {
    whole::spread(group, shards)
}

/// A queue made of shards. It follows a reshard, if it can open what that has added ([`Sharded::open`]).
pub struct Sharded<E> {
    list: RwLock<Arc<List<E>>>,
    /// Opens the shard of these names.
    open: Option<Open<E>>,
    /// Over how many URLs its shards are, in turn.
    urls: u32,
    /// Where each shard is, in turn, for people: without user or password.
    places: Vec<String>,
    /// Pushes that are not answered, and after how many reshards each was sent, the fewest first: a repeat looks where the call went.
    unanswered: Mutex<VecDeque<(String, Vec<usize>)>>,
}

type Open<E> = Arc<dyn Fn(&Names) -> Result<E> + Send + Sync>;

/// The shards of a queue.
struct List<E> {
    /// Of the home shard.
    names: Names,
    shards: Vec<Arc<E>>,
    /// The home shard has told that these are all. Before that, a shard that was not found may be one that is looked for where it is not.
    is_checked: AtomicBool,
    /// The same, and with replicas that are waited for these too know of all reshards that these names tell of.
    is_known: AtomicBool,
}

impl<E> List<E> {
    fn new(names: Names, shards: Vec<Arc<E>>) -> Self {
        Self {
            names,
            shards,
            is_checked: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
        }
    }

    fn home(&self) -> &E {
        &self.shards[0]
    }

    fn now(&self) -> usize {
        self.names.shards_now()
    }

    fn is_checked(&self) -> bool {
        self.shards.len() == 1 || self.is_checked.load(Ordering::Relaxed)
    }
}

/// How many reshards one call follows.
const FOLLOWS_MAX: usize = Names::RESHARDS_MAX;
/// How many pushes without an answer are remembered.
const UNANSWERED_MAX: usize = 1000;

impl<E: Engine<Shard = E>> Sharded<E> {
    /// The home shard first. The numbers of each must begin at its [`first_number`].
    pub fn new(shards: Vec<Arc<E>>) -> Result<Self> {
        let names = Names::default().of_shard(0, shards.len());
        names.check()?;
        Ok(Self::of(List::new(names, shards)))
    }

    /// All shards of the queue that has these names in its home shard, each opened by `open` with its own; and those that a reshard adds, when it does.
    pub fn open(names: &Names, open: impl Fn(&Names) -> Result<E> + Send + Sync + 'static) -> Result<Self> {
        names.check()?;
        let shards = (0..names.shards_in_all()).map(|shard| open(&names.in_shard(shard)).map(Arc::new));
        let list = List::new(names.clone(), shards.collect::<Result<_>>()?);
        Ok(Self {
            open: Some(Arc::new(open)),
            ..Self::of(list)
        })
    }

    fn of(list: List<E>) -> Self {
        Self {
            list: RwLock::new(Arc::new(list)),
            open: None,
            urls: 1,
            places: Vec::new(),
            unanswered: Mutex::default(),
        }
    }

    /// Its shards are over so many URLs, in turn.
    #[must_use]
    pub fn over(self, urls: usize) -> Self {
        let urls = u32::try_from(urls).unwrap_or(u32::MAX);
        Self { urls, ..self }
    }

    /// Where each shard is, in turn, for people: without user or password.
    #[must_use]
    pub fn at(self, places: Vec<String>) -> Self {
        Self { places, ..self }
    }

    /// What a cluster or sentinels say comes before what a URL says.
    fn place_of(&self, list: &List<E>, shard: usize) -> Option<String> {
        let told = list.shards[shard].place();
        let in_turn = || self.places.get(shard % self.places.len().max(1));
        told.or_else(|| in_turn().cloned())
    }

    /// How many shards it has, with those that only run empty after a reshard.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list().shards.len()
    }

    fn list(&self) -> Arc<List<E>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens what a reshard has added, of which a shard has told with its line.
    fn follow(&self, line: &str) -> Result<()> {
        let Some(open) = &self.open else {
            return Err(Error::Setting {
                setting: "shards",
                reason: "the number of shards was changed, and this queue was opened without a way to open those that are new".into(),
            });
        };
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let known = &list.names;
        let told = (0..list.shards.len()).find_map(|shard| known.in_shard(shard).continued(line));
        // Another call was told before, and all of it is opened.
        let Some(now) = told else { return Ok(()) };
        let is_checked = now.shard == 0 || list.is_checked();
        let names = if now.shard == 0 {
            now
        } else {
            let before = known.in_shard(now.shard as usize).then.len();
            let mut names = known.clone();
            names.then.extend(now.then.iter().skip(before));
            names
        };
        *list = Arc::new(self.list_of(names, open)?);
        list.is_checked.store(is_checked, Ordering::Relaxed);
        Ok(())
    }

    /// Opens all shards of these names: also those that were open, since each is told the names with its calls.
    fn list_of(&self, names: Names, open: &Open<E>) -> Result<List<E>> {
        names.check()?;
        // More than there were are no harm, as long as each shard is where it was.
        let is_elsewhere =
            |urls: u32| (0..names.shards_in_all()).any(|shard| at_url(shard, urls) != at_url(shard, self.urls));
        if let Some(last) = names.then.last().filter(|last| is_elsewhere(last.urls)) {
            return Err(Error::Setting {
                setting: "shards",
                reason: format!(
                    "this queue has its shards over {} URLs since a reshard, and {} given: give all of them, in the same order everywhere",
                    last.urls,
                    if self.urls == 1 {
                        "1 is".into()
                    } else {
                        format!("{} are", self.urls)
                    }
                ),
            });
        }
        let shards = (0..names.shards_in_all()).map(|shard| open(&names.in_shard(shard)).map(Arc::new));
        let shards = shards.collect::<Result<_>>()?;
        Ok(List::new(names, shards))
    }

    /// Makes a call on all shards, and again if there are others since.
    async fn following<T, F: Future<Output = Result<T>>>(&self, call: impl Fn(Arc<List<E>>) -> F) -> Result<T> {
        for _ in 0..FOLLOWS_MAX {
            match call(self.list()).await {
                Err(Error::Resharded { line, .. }) => self.follow(&line)?,
                answer => return answer,
            }
        }
        Err(nothing())
    }

    /// The shards as they are now: asks the home shard, for calls that would not be told. One that has told before may be away.
    async fn fresh(&self) -> Result<Arc<List<E>>> {
        let look = async |list: Arc<List<E>>| match list.home().published().await {
            Ok(_) => {
                list.is_checked.store(true, Ordering::Relaxed);
                Ok(list)
            }
            // Nobody has put anything there yet. Where there is one shard, the call itself finds whatever else it is.
            Err(Error::NoQueue { .. }) => Ok(list),
            Err(error) if !matches!(error, Error::Resharded { .. }) && list.shards.len() == 1 => Ok(list),
            Err(error) if error.is_away() && (list.is_checked() || Self::others_are_there(&list).await) => Ok(list),
            Err(error) => Err(error),
        };
        self.following(look).await
    }

    /// The same, and asks only if the home shard has not told yet whether these are all.
    async fn checked(&self) -> Result<Arc<List<E>>> {
        let list = self.list();
        if list.is_checked() {
            Ok(list)
        } else {
            self.fresh().await
        }
    }

    /// While the home shard does not answer: each of the others was made as one of so many.
    async fn others_are_there(list: &List<E>) -> bool {
        let looks = join_all(list.shards.iter().skip(1).map(async |shard| shard.published().await)).await;
        looks.iter().all(Result::is_ok)
    }

    /// Asks all shards at once.
    async fn all<T, F: Future<Output = Result<T>>>(list: &List<E>, ask: impl Fn(Arc<E>) -> F) -> Vec<Result<T>> {
        join_all(list.shards.iter().map(|shard| ask(shard.clone()))).await
    }

    /// The same, of which none may fail. A shard that nobody has put anything into yet has nothing; if that is so of all, there is no queue.
    async fn every<T: Default, F: Future<Output = Result<T>>>(
        list: &List<E>,
        ask: impl Fn(Arc<E>) -> F,
    ) -> Result<Vec<T>> {
        let mut answers = Self::all(list, ask).await;
        if answers
            .iter()
            .all(|answer| matches!(answer, Err(Error::NoQueue { .. })))
        {
            answers.truncate(1);
            return answers.into_iter().collect();
        }
        answers.into_iter().map(made).collect()
    }

    /// What is to be done in all of these shards is done in none while one is away.
    async fn all_answer(shards: &[Arc<E>]) -> Result<()> {
        let looks = join_all(shards.iter().map(async |shard| shard.published().await)).await;
        let mut away = looks
            .into_iter()
            .filter(|look| look.as_ref().is_err_and(Error::is_away));
        away.next().map_or(Ok(()), |look| look.map(drop))
    }

    /// There is no queue while nobody has put anything into any shard; or there are others since.
    async fn is_there(list: &List<E>) -> Result<()> {
        let mut looks = Self::all(list, async |shard| shard.published().await).await;
        let told = looks
            .iter()
            .position(|look| matches!(look, Err(Error::Resharded { .. })));
        if let Some(told) = told {
            return looks.swap_remove(told).map(drop);
        }
        let is_made = |look: &Result<u64>| !matches!(look, Err(Error::NoQueue { .. }));
        if looks.iter().any(is_made) {
            return Ok(());
        }
        looks.into_iter().next().map_or(Ok(()), |look| look.map(drop))
    }

    /// Changes something in all shards, and again if there are others since: whoever changes their number in between has looked before it was changed.
    async fn lasting<T, F: Future<Output = Result<T>>>(&self, change: impl Fn(Arc<List<E>>) -> F) -> Result<T> {
        let mut list = self.fresh().await?;
        for _ in 0..FOLLOWS_MAX {
            let told = match change(list.clone()).await {
                Err(Error::Resharded { line, .. }) => {
                    self.follow(&line)?;
                    list = self.list();
                    continue;
                }
                told => told?,
            };
            let now = self.fresh().await?;
            if now.names == list.names {
                return Ok(told);
            }
            list = now;
        }
        Err(nothing())
    }

    /// Makes a shard that nobody has put anything into yet, of a queue that is there: what is said of the whole queue counts there, too, once somebody does.
    async fn make(&self, list: &List<E>, shard: usize) -> Result<()> {
        let birth = self.status().await?.birth;
        reshard::make(&*list.shards[shard], shard, &birth).await
    }

    /// Asks one after the other, the home shard last: what it says is what all do. One that only runs empty since a reshard, and is away, is left out: its server
    /// may be gone for good.
    async fn in_turn<T, F: Future<Output = Result<T>>>(&self, ask: impl Fn(Arc<List<E>>, Arc<E>) -> F) -> Result<T> {
        self.lasting(async |list: Arc<List<E>>| self.in_turn_of(&list, &ask).await)
            .await
    }

    async fn in_turn_of<T, F: Future<Output = Result<T>>>(
        &self,
        list: &Arc<List<E>>,
        ask: impl Fn(Arc<List<E>>, Arc<E>) -> F,
    ) -> Result<T> {
        let (mut told, mut none, mut unmade) = (None, None, Vec::new());
        Self::all_answer(&list.shards[..list.now()]).await?;
        for (number, shard) in list.shards.iter().enumerate().rev() {
            match ask(list.clone(), shard.clone()).await {
                Ok(answer) => told = Some(answer),
                Err(error @ Error::NoQueue { .. }) => {
                    none = Some(error);
                    unmade.push(number);
                }
                Err(error) if error.is_away() && number >= list.now() => {}
                Err(error) => return Err(error),
            }
        }
        let mut told = told.ok_or_else(|| none.unwrap_or_else(nothing))?;
        for number in unmade {
            self.make(list, number).await?;
            let answer = ask(list.clone(), list.shards[number].clone()).await?;
            if number == 0 {
                told = answer;
            }
        }
        Ok(told)
    }

    /// The members of a process, by shard: of what a look shows, or of a member.
    async fn members(list: &List<E>, node: &str) -> Result<Vec<(usize, NodeId)>> {
        let ids = async |shard: Arc<E>| shard.status().await.map(|status| status.nodes);
        let shards = Self::every(list, ids).await?.into_iter().enumerate();
        let of = |(shard, nodes): (usize, Vec<NodeStatus>)| nodes.into_iter().map(move |found| (shard, found.node));
        let all = shards.flat_map(of);
        Ok(all.filter(|(_, found)| process_of(found) == process_of(node)).collect())
    }

    /// Numbers by the shard that they are of; what no shard has is left out.
    fn by_shard(list: &List<E>, numbers: &[u64]) -> Vec<(usize, Vec<u64>)> {
        let mut parts: Vec<(usize, Vec<u64>)> = (0..list.shards.len()).map(|shard| (shard, Vec::new())).collect();
        for number in numbers {
            if let Some((_, part)) = parts.get_mut(shard_of(*number)) {
                part.push(*number);
            }
        }
        parts.retain(|(_, part)| !part.is_empty());
        parts
    }
}

/// At which URL a shard is.
fn at_url(shard: usize, urls: u32) -> usize {
    shard % urls.max(1) as usize
}

/// The answer of a shard, which may not have been made yet: then there is nothing in it.
fn made<T: Default>(answer: Result<T>) -> Result<T> {
    match answer {
        Err(Error::NoQueue { .. }) => Ok(T::default()),
        answer => answer,
    }
}

fn nothing() -> Error {
    Error::Protocol {
        detail: "a queue without a shard".into(),
    }
}
