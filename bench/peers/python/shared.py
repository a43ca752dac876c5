"""What the harnesses share: worker processes, and a count of what they handled."""
import json
import os
import subprocess
import sys
import time

import redis

URL, MESSAGES = os.environ["REDIS_URL"], int(os.environ["MESSAGES"])
PATIENCE = 60
# One byte for each message, by all processes: counting in Redis would cost a peer a round trip that is not its own.
HANDLED = os.open(os.environ["HANDLED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def handled():
    os.write(HANDLED, b".")


def measure(worker, push, unsettled):
    """Starts `worker`, pushes all, and waits until all are handled and `unsettled(redis)` counts none."""
    os.truncate(HANDLED, 0)
    client = redis.Redis.from_url(URL)
    deadline = time.monotonic() + PATIENCE
    process = subprocess.Popen([sys.executable, "-m", *worker], cwd=os.path.dirname(__file__), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # The first only shows that the worker is there.
        push(-1)
        until(deadline, lambda: count() >= 1)
        start = time.monotonic()
        for number in range(MESSAGES):
            push(number)
        done = until(deadline, lambda: count() >= MESSAGES + 1 and not unsettled(client))
        seconds = time.monotonic() - start
    finally:
        # It ends its own children on this; `run` sees to what is left.
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
    if done:
        print(json.dumps({"messages": MESSAGES, "seconds": seconds}))
    else:
        print(json.dumps({"error": f"{count()} of {MESSAGES + 1} after {PATIENCE} s"}))


def count():
    return os.fstat(HANDLED).st_size


def until(deadline, reached):
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
