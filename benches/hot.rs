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

#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    let mut builder = PackBuilder::new();
    bencher
        .counter(ItemsCount::new(PACK_MESSAGES_MAX))
        .bench_local(|| hot::encode(&mut builder));
}

#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    let pack = pack();
    bencher
        .counter(ItemsCount::new(PACK_MESSAGES_MAX))
        .bench_local(|| hot::decode(&pack));
}

#[divan::bench]
fn split(bencher: Bencher<'_, '_>) {
    let pack = pack();
    bencher
        .counter(ItemsCount::new(PACK_MESSAGES_MAX))
        .bench_local(|| hot::split(&pack));
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
    let (pack, settings, handle) = (pack(), Arc::new(Settings::default()), Arc::new(hot::Nothing));
    bencher
        .counter(ItemsCount::new(PACK_MESSAGES_MAX))
        .bench_local(|| runtime.block_on(hot::hand_out(&settings, &handle, &pack)));
}
