//! rusty-sidekiq: 50 workers, 50 tasks that push. It has no call for many at once.

use std::time::Instant;

use peers::{handled, messages, report, url};
use sidekiq::{Processor, RedisConnectionManager, Worker};

const PUSHERS: u64 = 50;

#[derive(Clone)]
struct Nothing;

#[async_trait::async_trait]
impl Worker<u64> for Nothing {
    async fn perform(&self, _: u64) -> sidekiq::Result<()> {
        handled();
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let manager = RedisConnectionManager::new(url()).expect("an address");
    let redis = bb8::Pool::builder().max_size(120).build(manager).await.expect("Redis");
    let config = sidekiq::ProcessorConfig::default().num_workers(50);
    let mut processor = Processor::new(redis.clone(), vec!["default".into()]).with_config(config);
    processor.register(Nothing);
    tokio::spawn(processor.run());
    let start = Instant::now();
    for pusher in 0..PUSHERS {
        let redis = redis.clone();
        tokio::spawn(async move {
            for number in (pusher..messages()).step_by(PUSHERS as usize) {
                Nothing::perform_async(&redis, number).await.expect("pushed");
            }
        });
    }
    // It does not acknowledge: handled is all there is.
    report(start, async || true).await;
}
