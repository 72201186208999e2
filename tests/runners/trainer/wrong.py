"""A trainer that goes wrong as told: ``wrong.py FAULT CONFIG TRACES``.

It prints the lines of docs/own_trainer/run/train.py and trains nothing.
"""

import json
import os
import signal
import subprocess
import sys
import time


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def step(number, loss="2.5000", rate="10,000"):
    return f"step {number} | loss {loss} | grad norm 1.000 | {rate} tokens/s | 0.50 GiB"


def steps(count, *, pause=0.002, **more):
    for number in range(1, count + 1):
        say(step(number, **more))
        time.sleep(pause)


def begin():
    say("training in bf16 from step 0")


def sound():
    begin()
    steps(60)


def silent_first():
    time.sleep(3)
    sound()


def saves_for_long():
    sound()
    time.sleep(1000)


def in_colours():
    begin()
    for number in range(1, 61):
        say(f"\x1b[1;32mINFO\x1b[0m \x1b[36m{step(number)}\x1b[0m")


def in_pieces():
    text = "\n".join([*map(step, range(1, 61)), ""]).encode()
    for place in range(0, len(text), 7):
        os.write(1, text[place : place + 7])
        time.sleep(0.0005)


def noisy():
    begin()
    noise = ("loading shard 12345 of the corpus, 0.1 s\n" * 25_000) + "\n"
    for number in range(1, 101):
        sys.stdout.write(noise)
        say(step(number))


def without_end():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = "import time\nwhile True: print('still here', flush=True); time.sleep(.1)"
    held = subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    say(f"child {held.pid}")
    begin()
    steps(10_000)


def leaves_a_writer():
    child = "import time\nwhile True: print('still here', flush=True); time.sleep(.1)"
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    begin()


def becomes_nan():
    begin()
    steps(3)
    for number in range(4, 14):
        say(step(number, loss="nan"))
    say("done after step 13")


def is_nan_from_the_start():
    begin()
    steps(20, loss="nan")


def prints_other_steps():
    begin()
    for number in range(10_000):
        say(step(number).replace("loss", "cost"))
        time.sleep(0.002)


def prints_other_steps_and_ends():
    begin()
    for number in range(3):
        say(step(number).replace("loss", "cost"))


def ends_early():
    begin()
    steps(2)
    say("done after step 2")


def out_of_memory():
    begin()
    say(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 "
        "has a total capacity of 79.11 GiB of which 1.02 GiB is free."
    )
    raise SystemExit(1)


def does_not_compile():
    begin()
    say("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:")
    raise SystemExit(1)


def cannot_import():
    import no_such_package  # noqa: F401


def has_no_model():
    """In the words of huggingface_hub 1.33 and transformers 5.16."""
    begin()
    print(
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested "
        "files in the disk cache and outgoing traffic has been disabled. To enable "
        "hf.co look-ups and downloads online, set 'local_files_only' to False.\n"
        "The above exception was the direct cause of the following exception:\n"
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, "
        "and couldn't find them in the cached files.",
        file=sys.stderr,
    )
    sys.exit(1)


def has_a_bug():
    begin()
    {}["dim"]


def disk_is_full():
    begin()
    with open("/dev/full", "w") as file:
        file.write("a checkpoint")


def crashes():
    begin()
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs():
    begin()
    steps(2)
    time.sleep(1000)


def never_begins():
    time.sleep(1000)


def prints_no_text():
    os.write(1, bytes(range(256)) * 400)
    time.sleep(1000)


def tells_tokens_of_one_gpu():
    """A step of 256 tokens takes 60 ms, and it says so for an eighth of them."""
    begin()
    for number in range(1, 60):
        say(step(number, rate=f"{256 / 0.06 / 8:,.0f}"))
        time.sleep(0.06)


def runs_ahead_of_its_gpu():
    """Steps of 200 ms on the GPU, whose lines come while it is still at them."""
    for number in range(1, 60):
        say(
            f"[fp8tune] step {number} | loss 2.5 | {0.2 + number / 1e9:.9f} s | 0.5 GiB"
        )
        time.sleep(0.06)


def talks_while_it_hangs():
    begin()
    steps(2)
    while True:
        say("\x1b[33mWARNING\x1b[0m waiting for rank 3")
        time.sleep(0.05)


def restarts():
    begin()
    steps(4, rate="20,000")
    begin()
    steps(60)


def prints_other_lines():
    for number in range(1, 4):
        say(f"iteration {number}, loss 2.5")
    time.sleep(1000)


def says_its_environment():
    names = ("RANK", "WORLD_SIZE", "SLURM_NTASKS", "MASTER_ADDR", "WANDB_MODE")
    say(json.dumps({name: os.environ.get(name) for name in names}))
    begin()
    raise SystemExit(7)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
