// BullMQ: addBulk of 500, 200 at once, finished jobs removed.
import { Queue, Worker } from 'bullmq';
import { begin, count, inBatches, isProducer, port, produce, SIDE_BY_SIDE } from './shared.mjs';

const connection = { host: '127.0.0.1', port };
if (isProducer) {
  const queue = new Queue('peers', { connection });
  const opts = { removeOnComplete: true, removeOnFail: true };
  await queue.waitUntilReady();
  await produce(
    (numbers) => queue.addBulk(numbers.map((number) => ({ name: 'n', data: number, opts }))),
    (number) => queue.add('n', number, opts),
  );
} else {
  const worker = new Worker('peers', async () => {}, { connection, concurrency: inBatches ? 200 : SIDE_BY_SIDE });
  worker.on('completed', count);
  await worker.waitUntilReady();
  begin(import.meta.filename);
}
