"""Dramatiq: two processes of eight threads, prefetch 100, no middleware that is not needed. Each call sends one message: it has none for many."""
import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from shared import URL, handled, measure

broker = RedisBroker(url=URL, middleware=[])
dramatiq.set_broker(broker)


@dramatiq.actor
def nothing(number):
    handled()


def main():
    os.environ["dramatiq_queue_prefetch"] = "100"
    worker = ["dramatiq", "peer_dramatiq", "--processes", "2", "--threads", "8"]
    # Messages that are not acknowledged yet are still here.
    measure(worker, nothing.send, lambda redis: redis.hlen("dramatiq:default.msgs"))


if __name__ == "__main__":
    main()
