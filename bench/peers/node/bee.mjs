// Bee-Queue: saveAll of 500, 200 at once, no events, finished jobs removed.
import Queue from 'bee-queue';
import { begin, count, inBatches, isProducer, port, produce, SIDE_BY_SIDE } from './shared.mjs';

const settings = {
  redis: { host: '127.0.0.1', port },
  getEvents: false,
  sendEvents: false,
  storeJobs: false,
  removeOnSuccess: true,
  isWorker: !isProducer,
};
const queue = new Queue('peers', settings);
await queue.ready();
if (isProducer) {
  await produce(
    (numbers) => queue.saveAll(numbers.map((number) => queue.createJob(number))),
    (number) => queue.createJob(number).save(),
  );
} else {
  // Without this it would not give again what a killed worker had.
  await queue.checkStalledJobs(5000);
  queue.process(inBatches ? 200 : SIDE_BY_SIDE, async () => {});
  queue.on('succeeded', count);
  begin(import.meta.filename);
}
