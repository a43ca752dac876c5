//! The slots of a cluster, and hash tags for shards that spread over them.

/// How many slots a cluster has.
const SLOTS: usize = 16384;

/// The slot of a key with this hash tag.
pub(super) fn slot(tag: &str) -> usize {
    let mut crc: u16 = 0;
    for byte in tag.bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
        }
    }
    usize::from(crc) % SLOTS
}

/// The hash tag of a shard of a queue, if it is not the home shard. Seen from there, shards are as far apart as they can be: a server of a
/// cluster has a range of slots, and so as many shards as any other. Of the names `qs:QUEUE/SHARD.TRY`, the first whose slot is near enough.
pub(super) fn tag(queue: &str, shard: usize, shards: usize) -> String {
    let wanted = (slot(&format!("qr:{queue}")) + SLOTS * shard / shards) % SLOTS;
    let near = (SLOTS / shards / 16).max(1);
    let distance = |found: usize| {
        let apart = found.abs_diff(wanted);
        apart.min(SLOTS - apart)
    };
    let names = (0..).map(|attempt| format!("qs:{queue}/{shard}.{attempt}"));
    let mut near_enough = names.filter(|name| distance(slot(name)) <= near);
    near_enough.next().unwrap_or_else(|| format!("qs:{queue}/{shard}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        for (tag, expected) in [("123456789", 12739), ("foo", 12182), ("", 0)] {
            assert_eq!(slot(tag), expected, "{tag}");
        }
    }

    #[test]
    fn every_server_of_a_cluster_gets_as_many_shards_as_any_other() {
        for queue in ["jobs", "mail", "a", "queue-with-a-long-name"] {
            for (shards, servers) in [(3, 3), (6, 3), (8, 4), (64, 8), (256, 16)] {
                let mut counts = vec![0; servers];
                for shard in 0..shards {
                    let tag = match shard {
                        0 => format!("qr:{queue}"),
                        _ => tag(queue, shard, shards),
                    };
                    counts[slot(&tag) * servers / SLOTS] += 1;
                }
                let even = shards / servers;
                assert!(
                    counts.iter().all(|count| (even - 1..=even + 1).contains(count)),
                    "{queue} {counts:?}"
                );
            }
        }
    }
}
