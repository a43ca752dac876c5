// What the harnesses share. The worker runs here, the producer in a process of its own: there are two cores.
import { fork } from 'node:child_process';

export const url = process.env.REDIS_URL;
export const port = Number(new URL(url).port);
export const messages = Number(process.env.MESSAGES);
export const inBatches = process.env.MODE === 'batch';
export const isProducer = process.argv[2] === 'produce';
// One by one: so many on their way at once.
export const SIDE_BY_SIDE = 50;
const BATCH = 500;

let handled = 0;
let start;

// Starts the producer, and the clock with its first word.
export function begin(file) {
  const producer = fork(file, ['produce']);
  producer.on('message', () => { start = process.hrtime.bigint(); });
  setTimeout(() => end({ error: `${handled} of ${messages} after 60 s` }), 60_000);
}

export function count() {
  handled += 1;
  if (handled === messages) {
    end({ messages, seconds: Number(process.hrtime.bigint() - start) / 1e9 });
  }
}

function end(result) {
  console.log(JSON.stringify(result));
  process.exit(0);
}

// Numbers in batches of 500, or one by one with fifty on their way.
export async function produce(pushMany, pushOne) {
  process.send('started');
  if (inBatches) {
    for (let next = 0; next < messages; next += BATCH) {
      const size = Math.min(BATCH, messages - next);
      await pushMany(Array.from({ length: size }, (_, i) => next + i));
    }
  } else {
    let next = 0;
    const one = async () => {
      while (next < messages) {
        next += 1;
        await pushOne(next - 1);
      }
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, one));
  }
  process.exit(0);
}
