//! Work that other programs do: what `--handle` and its kin start, and how they are spoken to.
//!
//! | file | role |
//! | --- | --- |
//! | `secrets` | what children do not get, and do not get to tell |
//! | `group` | processes that end as a whole |
//! | `watcher` | ends them when this process was killed |
//! | `stderr` | what a child says on stderr |
//! | `answer` | what a child answers to a message |
//! | `child` | `--handle COMMAND`: one child, a line a message |
//! | `each` | `--handle-each COMMAND`: a process a message |
//! | `item` | what a generator prints |
//! | `lines` | `--generate COMMAND`: one child, a message a line |
//! | `generate_each` | `--generate-each COMMAND`: a process a message |
//! | `http` | `--handle http://…`: a POST a message |

mod answer;
mod child;
mod each;
mod generate_each;
mod group;
mod http;
mod item;
mod lines;
mod secrets;
mod stderr;
mod watcher;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::message::Message;
use crate::node::generate::{Draft, Election, Generate, Made, Next};
use crate::node::handle::{Handle, Handled};

pub use child::Child;
pub use each::Each;
pub use generate_each::GenerateEach;
pub use group::{kill_all, set_watcher, stop_all};
pub use http::Http;
pub use lines::Lines;
pub use secrets::Secrets;
pub use watcher::watch;

/// The longest wait before another child is started.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long a child that is not needed any more may take to end, before it is made to.
const GOODBYE: Duration = Duration::from_secs(1);

/// Gets the name of an event, and a text.
type Ear = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Is told what children say and how they end, but no secret.
#[derive(Clone)]
pub struct Tell {
    to: Ear,
    secrets: Secrets,
}

impl Tell {
    #[must_use]
    pub fn new(secrets: Secrets, to: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        let to = Arc::new(to);
        Self { to, secrets }
    }

    fn say(&self, event: &str, text: &str) {
        (self.to)(event, &self.secrets.hide_text(text));
    }
}

/// A handler behind a pointer, so that the built-in one does not pay for the size of the others.
pub trait Work: Send + Sync + 'static {
    fn work(&self, message: Message) -> Pin<Box<dyn Future<Output = Handled> + Send + '_>>;
}

impl<H: Handle> Work for H {
    fn work(&self, message: Message) -> Pin<Box<dyn Future<Output = Handled> + Send + '_>> {
        Box::pin(self.handle(message))
    }
}

/// The same for generators.
pub trait Make: Send + 'static {
    fn make<'a>(&'a mut self, next: Next, draft: &'a mut Draft) -> Pin<Box<dyn Future<Output = Made> + Send + 'a>>;
    fn elected(&mut self, election: &Election);
    fn deposed(&mut self, confirmed: u64);
}

impl<G: Generate> Make for G {
    fn make<'a>(&'a mut self, next: Next, draft: &'a mut Draft) -> Pin<Box<dyn Future<Output = Made> + Send + 'a>> {
        Box::pin(self.generate(next, draft))
    }

    fn elected(&mut self, election: &Election) {
        Generate::elected(self, election);
    }

    fn deposed(&mut self, confirmed: u64) {
        Generate::deposed(self, confirmed);
    }
}
