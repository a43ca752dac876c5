"""Dramatiq: two processes of eight threads, no middleware that is not needed. Pushes one by one: it has no call for many."""
import json
import os
import subprocess
import sys
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

URL, MESSAGES = os.environ["REDIS_URL"], int(os.environ["MESSAGES"])
broker = RedisBroker(url=URL, middleware=[])
dramatiq.set_broker(broker)
counter = redis.Redis.from_url(URL)


@dramatiq.actor
def nothing(number):
    counter.incr("peers:handled")


def main():
    counter.delete("peers:handled")
    command = [sys.executable, "-m", "dramatiq", "peer_dramatiq", "--processes", "2", "--threads", "8"]
    worker = subprocess.Popen(command, cwd=os.path.dirname(__file__), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        nothing.send(-1)
        deadline = time.monotonic() + 120
        while int(counter.get("peers:handled") or 0) < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        start = time.monotonic()
        for number in range(MESSAGES):
            nothing.send(number)
        while (handled := int(counter.get("peers:handled") or 0)) < MESSAGES + 1 and time.monotonic() < deadline:
            time.sleep(0.005)
        if handled < MESSAGES + 1:
            print(json.dumps({"error": f"{handled} of {MESSAGES} after two minutes"}))
        else:
            print(json.dumps({"messages": MESSAGES, "seconds": time.monotonic() - start}))
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    main()
