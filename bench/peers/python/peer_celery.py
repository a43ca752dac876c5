"""Celery: no results, prefetch, no events, two worker processes, acknowledged before the work (its default). Each call
sends one task: on Redis it has none for many."""
from celery import Celery

from shared import URL, handled, measure

app = Celery("peer_celery", broker=URL)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=100)


@app.task(ignore_result=True)
def nothing(number):
    handled()


def main():
    quiet = ["-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    worker = ["celery", "-A", "peer_celery", "worker", "-c", "2", *quiet]
    with app.producer_pool.acquire() as producer:
        measure(
            worker,
            lambda number: nothing.apply_async((number,), producer=producer),
            lambda redis: redis.llen("celery") + redis.hlen("unacked"),
        )


if __name__ == "__main__":
    main()
