//! What a message costs: CPU time of Redis and of the clients, commands, memory.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::figures::median;
use super::raw::float;
use super::session::Session;
use crate::app::exit::Failure;
use crate::app::lab::copy::Copy;

/// What a message costs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// Microseconds of Redis' CPU.
    pub(super) redis_cpu: f64,
    /// Microseconds of the clients' CPU.
    pub(super) client_cpu: f64,
    /// As Redis counts them, those inside scripts too.
    pub(super) commands: f64,
    /// The largest process, in MB.
    pub(super) peak_rss: f64,
    /// In Redis, of a message that waits.
    pub(super) queued_bytes: f64,
}

/// The meters of Redis, of all servers together.
#[derive(Default)]
pub(super) struct Meter {
    cpu: f64,
    commands: f64,
}

impl Cost {
    pub(super) fn of_redis(servers: &[&Session]) -> Result<Meter, Failure> {
        let mut sum = Meter::default();
        for server in servers {
            let mut socket = server.socket()?;
            let (cpu, stats) = (socket.info("cpu")?, socket.info("stats")?);
            sum.cpu += cpu.number("used_cpu_sys") + cpu.number("used_cpu_user");
            sum.commands += stats.number("total_commands_processed");
        }
        Ok(sum)
    }

    /// The CPU time of this process.
    pub(super) fn own_cpu() -> Duration {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    }
}

impl Meter {
    pub(super) fn until_now(&self, servers: &[&Session], messages: u64, client: Duration) -> Result<Cost, Failure> {
        let now = Cost::of_redis(servers)?;
        let each = |total: f64| total / float(messages.max(1));
        Ok(Cost {
            redis_cpu: each((now.cpu - self.cpu) * 1e6),
            client_cpu: each(client.as_secs_f64() * 1e6),
            commands: each(now.commands - self.commands),
            ..Cost::default()
        })
    }

    pub(super) fn redis_seconds(&self, servers: &[&Session]) -> Result<f64, Failure> {
        Ok(Cost::of_redis(servers)?.cpu - self.cpu)
    }
}

/// The CPU time so far, of all threads that are alive; Linux only.
pub(super) fn cpu(copies: &[Copy]) -> Duration {
    let tasks = copies
        .iter()
        .flat_map(|copy| std::fs::read_dir(format!("/proc/{}/task", copy.pid())));
    let nanos = tasks.flatten().flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// The most memory that any of them ever had, in MB.
pub(super) fn peak_rss(copies: &[Copy]) -> f64 {
    largest(copies, "VmHWM:")
}

/// What the largest of them has now, in MB.
pub(super) fn rss(copies: &[Copy]) -> f64 {
    largest(copies, "VmRSS:")
}

fn largest(copies: &[Copy], name: &str) -> f64 {
    let of = |copy: &Copy| {
        let text = std::fs::read_to_string(format!("/proc/{}/status", copy.pid())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.unwrap_or(0.0) * 1024.0 / 1e6
    };
    copies.iter().map(of).fold(0.0, f64::max)
}

/// The median of each meter.
pub(super) fn typical(costs: &[Cost]) -> Cost {
    let of = |meter: fn(&Cost) -> f64| median(&costs.iter().map(meter).collect::<Vec<_>>());
    Cost {
        redis_cpu: of(|cost| cost.redis_cpu),
        client_cpu: of(|cost| cost.client_cpu),
        commands: of(|cost| cost.commands),
        peak_rss: of(|cost| cost.peak_rss),
        queued_bytes: of(|cost| cost.queued_bytes),
    }
}
