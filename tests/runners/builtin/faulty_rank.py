"""A rank of a trial without torch, which fails as its first argument says."""

import json
import os
import signal
import sys
import time

from fp8tune.runners.orphan import die_with_parent

HOUR_S = 3600.0


def say(**fields):
    print(json.dumps({"at": time.time(), **fields}), flush=True)


def fail(kind, error, message):
    say(failed={"kind": kind, "error": error, "message": message})
    raise SystemExit(1)


def lose_connection():
    """What rank 0 says once another rank is gone."""
    fail("user", "RuntimeError", "[gloo/transport/tcp/pair.cc:547] " + LOST)


LOST = "Connection closed by peer [127.0.0.1]:1"


def main(mode, rank):
    say(stage="steady")
    if mode == "environment" and rank == 1:
        found = {n: v for n, v in os.environ.items() if n in NAMES}
        fail("user", "Environment", json.dumps(found))
    if mode == "oom" and rank == 1:
        fail("oom", "OutOfMemoryError", "CUDA out of memory")
    if mode == "killed" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "late-word" and rank == 1:
        time.sleep(0.5)  # the one that lost its connection speaks first
        fail("oom", "OutOfMemoryError", "CUDA out of memory")
    if mode in ("oom", "killed", "late-word"):
        time.sleep(0.2)
        lose_connection()
    if mode == "torn" and rank == 0:
        lose_connection()
    time.sleep(HOUR_S)


NAMES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"),
    *("GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS"),
)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[-1]))
    main(sys.argv[1], int(os.environ["RANK"]))
