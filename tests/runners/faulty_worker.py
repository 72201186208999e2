"""A worker that goes wrong as told: ``faulty_worker.py FAULT SPEC PARENT``.

A trial of micro-batch 2 is always sound, so that a search has something to find.
"""

import json
import os
import signal
import subprocess
import sys
import time


def say(**fields):
    print(json.dumps({"at": time.time(), **fields}), flush=True)


def sound(spec, steady_s=0.0, **more):
    say(stage="import")
    say(stage="build", torch="none", device="CPU")
    say(stage="first_step", float8_linears=1, checkpointed=0)
    say(step=0, ms=1.0, step_ms=1.0, loss=1.0, grad_norm=1.0)
    say(stage="steady")
    if steady_s:
        time.sleep(steady_s)
        ms = 1e3 * steady_s
        say(step=1, ms=ms, step_ms=ms, loss=1.0, grad_norm=1.0)
    say(stage="profile")
    fp8, matmuls = spec["precision"] == "fp8", 3 * spec["grad_accum"]
    done = {"step_ms": [1.0], "tokens_per_second_per_rank": 100.0, "peak_gib": 1.0}
    done |= {"reserved_gib": 1.0, "float8_matmuls": fp8 * matmuls, **more}
    say(done=done)


def takes_a_while(spec):
    sound(spec, steady_s=2.5)


def has_ten_gib(spec):
    """A GPU on which a sequence takes 1 GiB in each block."""
    peak = float(spec["layers"] * spec["micro_batch"])
    if peak > 10:
        out_of_memory(spec)
    else:
        sound(spec, peak_gib=peak, reserved_gib=peak, capacity_gib=10.0)


def never_starts(_):
    time.sleep(1000)


def hangs(_):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    say(stage="first_step")
    time.sleep(1000)


def leaves_the_session(_):
    child = "import time; time.sleep(1000)"
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    say(stage="steady")
    time.sleep(1000)


def aborts(_):
    say(stage="build")
    os.abort()


def crashes(_):
    sys.stderr.write("Failed to load _C_cutlass_90a.abi3.so\n")
    sys.stderr.flush()
    say(stage="steady")
    time.sleep(0.5)
    sys.stderr.write("a line of its own\n" * (os.environ.get("FP8TUNE_TEST") == "why"))
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)


def exits(_):
    say(stage="build")
    raise SystemExit(3)


def cannot_import(_):
    say(stage="import")
    say(failed={"kind": "user", "error": "ImportError", "message": "no torch"})
    raise SystemExit(1)


def floods(_):
    while True:
        print("x" * 65536)


def closes_stdout(_):
    os.close(1)
    time.sleep(1000)


def talks_without_end(_):
    say(stage="steady")
    while True:
        say(step=1, ms=1.0, loss=1.0, grad_norm=1.0)
        time.sleep(0.01)


def out_of_memory(_):
    say(stage="first_step")
    say(failed={"kind": "oom", "error": "E", "message": "CUDA out of memory"})


def lies(_):
    print('{"stage": ["first_step"]}\n{"done": 1}\n{"failed": []}', flush=True)


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        told = json.load(file)
    fault = sound if told["micro_batch"] == 2 else globals()[sys.argv[1]]
    fault(told)
