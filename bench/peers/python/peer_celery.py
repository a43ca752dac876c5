"""Celery: results off, prefetch 100, two worker processes, early acknowledgement (its default). Pushes one by one: there is
no call for many on Redis."""
import json
import os
import subprocess
import sys
import time

import redis
from celery import Celery

URL, MESSAGES = os.environ["REDIS_URL"], int(os.environ["MESSAGES"])
app = Celery("peer_celery", broker=URL)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=100, broker_transport_options={"visibility_timeout": 3600})
counter = redis.Redis.from_url(URL)


@app.task
def nothing(number):
    counter.incr("peers:handled")


def main():
    counter.delete("peers:handled")
    options = ["-A", "peer_celery", "worker", "-c", "2", "-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    worker = subprocess.Popen([sys.executable, "-m", "celery", *options], cwd=os.path.dirname(__file__), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        # One to see that the worker is there.
        nothing.delay(-1)
        deadline = time.monotonic() + 120
        while int(counter.get("peers:handled") or 0) < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        start = time.monotonic()
        for number in range(MESSAGES):
            nothing.delay(number)
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
