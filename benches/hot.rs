//! The paths that every message takes: `cargo bench --bench hot`.

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use queenright::Settings;
use queenright::app::commands::bench::hot;
use queenright::engine::redis::keys::Keys;
use queenright::message::{PACK_MESSAGES_MAX, Pack, PackBuilder};
use queenright::settings::Names;

fn main() {
    divan::main();
}

fn pack() -> Pack {
    hot::encode(&mut PackBuilder::new())
}

/// Figures of each message of the pack that `act` works on.
fn per_message<T>(bencher: Bencher<'_, '_>, act: impl FnMut() -> T) {
    let bencher = bencher.counter(ItemsCount::new(PACK_MESSAGES_MAX));
    bencher.bench_local(act);
}

#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    let mut builder = PackBuilder::new();
    per_message(bencher, || hot::encode(&mut builder));
}

#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    let pack = pack();
    per_message(bencher, || hot::decode(&pack));
}

#[divan::bench]
fn split(bencher: Bencher<'_, '_>) {
    let pack = pack();
    per_message(bencher, || hot::split(&pack));
}

#[divan::bench]
fn assemble(bencher: Bencher<'_, '_>) {
    let keys = Keys::new("bench", &Names::default());
    bencher.bench_local(|| hot::assemble(&keys));
}

#[divan::bench]
fn dispatch(bencher: Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (pack, settings, handle) = (pack(), Arc::new(Settings::default()), Arc::new(hot::Handler::idle()));
    per_message(bencher, || runtime.block_on(hot::hand_out(&settings, &handle, &pack)));
}
