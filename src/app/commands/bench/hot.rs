//! The paths that every message takes, each with a fixed load, without a store and without a clock that matters: for
//! micro-benchmarks, and for a count of instructions that is the same every time.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use crate::app::args::BenchHot;
use crate::app::commands::start::roles::Generator;
pub use crate::app::commands::start::roles::Handler;
use crate::app::exit::Failure;
use crate::app::run::runtime;
use crate::engine::redis::exchange_bytes;
use crate::engine::redis::keys::Keys;
use crate::engine::{Exchange, Run, Settle};
use crate::message::{Outcome, PACK_MESSAGES_MAX, Pack, PackBuilder};
use crate::node::generate::Generate;
use crate::node::generator::batch;
use crate::node::handler::dispatch;
use crate::settings::Settings;

/// What `bench-hot` knows. `reference` is plain arithmetic, to compare compilers by.
pub const PATHS: [&str; 7] = [
    "reference",
    "generate",
    "encode",
    "decode",
    "split",
    "assemble",
    "dispatch",
];

/// A thousand numbers, as packs to be published.
pub async fn generate(generator: &mut impl Generate, builder: &mut PackBuilder) -> usize {
    batch(generator, builder).await.expect("small messages").len()
}

/// A pack of a thousand small messages.
pub fn encode(builder: &mut PackBuilder) -> Pack {
    for number in 0..PACK_MESSAGES_MAX as u64 {
        builder.push(&black_box(number).to_le_bytes()[..6]);
    }
    builder.build(1_000_000, 1, 1)
}

/// Reads a pack that came from the store, and every payload in it.
#[must_use]
pub fn decode(pack: &Pack) -> usize {
    let pack = Pack::decode(pack.bytes().clone()).expect("a sound pack");
    (0..pack.count())
        .map(|index| black_box(pack.payload(index)).len())
        .sum()
}

/// Cuts a pack into pieces of ten.
#[must_use]
pub fn split(pack: &Pack) -> usize {
    (0..pack.count())
        .step_by(10)
        .map(|from| black_box(pack.piece(from, 10)).bytes().len())
        .sum()
}

/// The bytes of a call that settles fifty pieces and asks for more.
#[must_use]
pub fn assemble(keys: &Keys) -> usize {
    let run = |from| Run {
        from,
        count: 1,
        outcome: Outcome::Done(Vec::new()),
    };
    let settle = |piece: u64| Settle {
        piece: 1_000_000 + piece,
        runs: vec![run(0), run(2)],
    };
    let exchange = Exchange {
        node: "d7sg4x5ywn".into(),
        lane: 0,
        call: 1234,
        settles: (0..50).map(settle).collect(),
        want: 1000,
        want_bytes: 1 << 20,
        woken: false,
        ..Exchange::default()
    };
    exchange_bytes(keys, black_box(&exchange)).len()
}

/// Hands every message of a pack to the handler of `start`, which does nothing with it, and collects what is to be settled.
pub async fn hand_out(settings: &Arc<Settings>, handle: &Arc<Handler>, pack: &Pack) -> usize {
    dispatch(settings, handle, vec![pack.clone()]).await.len()
}

fn reference() -> u64 {
    (0..50_000u64).fold(1, |sum, number| black_box(sum.wrapping_mul(31) ^ number))
}

pub(in crate::app::commands) fn run(flags: &BenchHot) -> Result<ExitCode, Failure> {
    let runtime = runtime()?;
    let mut builder = PackBuilder::new();
    let pack = encode(&mut builder);
    let keys = Keys::new("bench", &crate::settings::Names::default());
    let mut generator = Generator::counter();
    let (settings, handle) = (Arc::new(Settings::default()), Arc::new(Handler::idle()));
    for _ in 0..flags.times {
        match flags.path.as_str() {
            "reference" => _ = black_box(reference()),
            "generate" => _ = black_box(runtime.block_on(generate(&mut generator, &mut builder))),
            "encode" => _ = black_box(encode(&mut builder)),
            "decode" => _ = black_box(decode(&pack)),
            "split" => _ = black_box(split(&pack)),
            "assemble" => _ = black_box(assemble(&keys)),
            "dispatch" => _ = black_box(runtime.block_on(hand_out(&settings, &handle, &pack))),
            other => {
                let line = format!("bench-hot: there is no {other}; there are {}", PATHS.join(", "));
                return Err(Failure::usage(line));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
