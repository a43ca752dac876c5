//! The slots of a cluster, and hash tags for shards that spread over them.

use crate::settings::Names;

/// How many slots a cluster has.
const SLOTS: usize = Names::RING as usize;

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

/// The hash tag of a shard of a queue, if it is not the home shard, [from which it is as far away as it is to be](Names::at): a server of a
/// cluster has a range of slots, and so as many shards as any other. Of the names `qs:QUEUE/SHARD.TRY`, the first whose slot is near enough.
pub(super) fn tag(queue: &str, names: &Names) -> String {
    let (shard, shards) = (names.shard, names.shards as usize);
    let wanted = (slot(&format!("qr:{queue}")) + names.at as usize) % SLOTS;
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
            for (first, then, servers) in [
                (3, vec![], 3),
                (6, vec![], 3),
                (8, vec![], 4),
                (64, vec![], 8),
                (256, vec![], 16),
                (1, vec![3], 3),
                (3, vec![6], 3),
                (2, vec![3, 2, 8], 4),
                (3, vec![5, 12], 6),
            ] {
                let names = then
                    .iter()
                    .fold(Names::default().of_shard(0, first), |names, to| names.resharded(*to, 1));
                let (shards, mut counts) = (names.shards_in_all(), vec![0; servers]);
                for shard in 0..shards {
                    let tag = match shard {
                        0 => format!("qr:{queue}"),
                        _ => tag(queue, &names.in_shard(shard)),
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
