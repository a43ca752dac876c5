"""Processes that are bounded in time and leave nothing behind, and a Redis."""
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

WORK = pathlib.Path(__file__).resolve().parent / ".work"


class Failed(Exception):
    """In one line."""


def bounded(command, seconds, environment=None, cwd=None):
    """What it printed. It has a process group of its own, and when it has ended, for whatever reason, so has the group."""
    # Not pipes: a child that outlives the command would keep them open.
    with tempfile.TemporaryFile("w+", dir=WORK) as out, tempfile.TemporaryFile("w+", dir=WORK) as errors:
        words = [str(word) for word in command]
        options = {"env": environment, "cwd": cwd, "stdin": subprocess.DEVNULL, "stdout": out, "stderr": errors}
        process = subprocess.Popen(words, start_new_session=True, **options)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {seconds} s") from None
        finally:
            end(process)
        out.seek(0), errors.seek(0)
        if process.returncode != 0:
            said = (errors.read().strip() or out.read().strip() or f"ended with {process.returncode}").splitlines()
            raise Failed(said[-1][:160].replace("|", "/"))
        return out.read()


def end(process):
    """The whole group: politely, then not."""
    for how, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and alive(process):
            time.sleep(0.02)
    process.wait()


def alive(process):
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


class Redis:
    """On a free port of loopback; writes nothing to disk."""

    def __enter__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        options = {"stdout": subprocess.DEVNULL, "cwd": WORK, "start_new_session": True}
        self.process = subprocess.Popen(["redis-server", *arguments], **options)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.command("PING")
                return self
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    end(self.process)
                    raise Failed("the redis-server did not start") from None
                time.sleep(0.05)
            except BaseException:
                end(self.process)
                raise

    def __exit__(self, *_):
        end(self.process)

    def command(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return connection.recv(65536).decode()

    def version(self):
        lines = self.command("INFO", "server").splitlines()
        return next(line.split(":")[1] for line in lines if line.startswith("redis_version"))
