"""The peers: what they are called, what they promise, and how each is installed and run."""
import json
import pathlib
import re
import shutil
import sys
from collections import namedtuple

from processes import Failed, bounded

HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE / ".work"
INSTALL = 1800

# Messages in batches and one by one; 0: it has no call for many. `acknowledges`: after the work, so that a message outlives
# its worker.
Peer = namedtuple("Peer", "name package kind program batch single acknowledges promise extra", defaults=[{}])
PEERS = [
    Peer("BullMQ", "bullmq", "node", "bullmq.mjs", 40_000, 40_000, True, "at least once; stalled after 30–60 s"),
    Peer("Bee-Queue", "bee-queue", "node", "bee.mjs", 80_000, 80_000, True, "at least once; stalled after 5–10 s"),
    Peer("rusty-sidekiq", "rusty-sidekiq", "rust", "sidekiq", 0, 40_000, False, "loses what a killed process had popped"),
    Peer("apalis-redis", "apalis-redis", "rust", "apalis", 100_000, 40_000, True, "at least once; orphans after 300 s"),
    Peer(
        "apalis-redis without results", "apalis-redis", "rust", "apalis", 100_000, 40_000, False,
        "does not acknowledge: 300 s after a worker all that it ever took is queued again", {"ACKNOWLEDGE": "no"},
    ),
    Peer("Dramatiq", "dramatiq", "python", "peer_dramatiq.py", 0, 8_000, True, "at least once; a dead worker's after 60 s"),
    Peer("Celery", "celery", "python", "peer_celery.py", 0, 4_000, False, "acknowledges before the work: loses what a killed worker had"),
]
NEEDS = {"node": ["node", "npm"], "rust": ["cargo"], "python": []}


def version(peer):
    """The one that is pinned."""
    if peer.kind == "node":
        return json.loads((HERE / "node" / "package.json").read_text())["dependencies"][peer.package]
    if peer.kind == "rust":
        pattern, file = rf'name = "{peer.package}"\nversion = "(.+)"', HERE / "rust" / "Cargo.lock"
    else:
        pattern, file = rf"(?m)^{peer.package}==(.+)$", HERE / "python" / "requirements.txt"
    return re.search(pattern, file.read_text()).group(1)


def install(kind):
    """Into WORK. None, or why it cannot be."""
    absent = [program for program in NEEDS[kind] if shutil.which(program) is None]
    if absent:
        return f"not run: no {' and no '.join(absent)} here"
    target = WORK / kind
    try:
        if kind == "node":
            shutil.copytree(HERE / "node", target, dirs_exist_ok=True)
            # Not `ci`: it refuses a lock without the optional parts of platforms other than the one it was made on.
            bounded(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], INSTALL, cwd=target)
        elif kind == "python":
            if not (target / "bin" / "pip").exists():
                bounded([sys.executable, "-m", "venv", "--clear", target], INSTALL)
            bounded([target / "bin" / "pip", "install", "-q", "-r", HERE / "python" / "requirements.txt"], INSTALL)
        else:
            manifest = HERE / "rust" / "Cargo.toml"
            bounded(["cargo", "build", "--release", "--locked", "-q", "--manifest-path", manifest, "--target-dir", target], INSTALL)
    except (Failed, OSError) as error:
        return f"not run: {kind} part not installed ({error})"
    return None


def command(peer):
    if peer.kind == "node":
        return ["node", WORK / "node" / peer.program]
    if peer.kind == "python":
        return [WORK / "python" / "bin" / "python", HERE / "python" / peer.program]
    return [WORK / "rust" / "release" / peer.program]
