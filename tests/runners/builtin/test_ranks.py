"""Trials of several ranks: real ones on the CPU, and ranks that fail."""

import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fp8tune.config.reader import config_of
from fp8tune.job import Target
from fp8tune.runners.builtin import launch
from fp8tune.runners.builtin.launch import End, first_cause
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.builtin.spec import CannotBuild
from fp8tune.runners.sampling import Sampling
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.record import LossRun
from fp8tune.trials.runner import TrialLimits
from tests.each import each
from tests.runners.builtin.small import MOE, SMALL

LONG = TrialLimits(3600)
BF16 = SMALL.replace('"fp8"', '"bf16"')
TP = "[distributed]\ntp = 2\n"
TITAN = """\
[model]
name = "llama3"
flavor = "debugmodel"
[training]
local_batch_size = 1
seq_len = 16
[parallelism]
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
"""


def runner(text, ranks, dp_shard=1, name="kempnerforge", **more):
    """A runner of trials that all run ``ranks`` processes."""
    config = config_of("a.toml", text.encode(), Target("", ranks), only=trainer(name))
    setup = Setup("cpu", dp_shard, ranks, sampling=Sampling(2, 3, 1))
    return Builtin(config, setup, **more)


def learned(text, ranks, dp_shard=1, steps=3, name="kempnerforge"):
    run = LossRun(seed=5, warmup_steps=0, steps=steps, config_warmup_steps=0)
    found = runner(text, ranks, dp_shard, name).train_for_losses({}, run, 3600)
    assert (found.outcome, found.message) == ("ok", "")
    return found


def test_two_ranks_whatever_the_environment_says_of_ranks(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        other = {"SLURM_NTASKS": "8", "SLURM_PROCID": "3", "RANK": "7"}
        other |= {"WORLD_SIZE": "8", "MASTER_ADDR": "far.invalid", "MASTER_PORT": port}
        for variable, value in other.items():
            monkeypatch.setenv(variable, value)
        found = runner(SMALL, 2, 2).run({}, LONG)
    assert (found.outcome, found.message) == ("ok", "")
    assert (found.extra["ranks"], found.extra["peak_rank"] in (0, 1)) == (2, True)
    # two micro-batches; 14 linears of blocks, which are computed twice, and the head
    assert found.float8_matmuls == 2 * (14 * 4 + 3)
    middle = statistics.median(found.step_ms)
    assert found.tokens_per_second == pytest.approx(2 * 2 * 2 * 32 / middle * 1e3)
    assert (found.extrapolated, found.communication_ms) == ("", 0.0)
    assert [done.why for done in found.discarded] == ["warm-up"]


def test_ranks_train_as_one_rank_with_all_their_sequences(in_this_process):
    text = SMALL.replace('"fp8"', '"fp32"')
    whole = learned(text.replace("batch_size = 2", "batch_size = 4"), 1)
    in_this_process.undo()
    found = learned(text, 2, 2)
    assert found.grad_norms == pytest.approx(whole.grad_norms, rel=1e-4)
    # the trainer logs the loss of rank 0, of half of the sequences
    assert found.losses != pytest.approx(whole.losses, rel=1e-3)
    assert found.losses == pytest.approx(whole.losses, rel=0.05)


def test_tensor_parallel_ranks_learn():
    found = learned(BF16.replace('"full"', '"selective"') + TP, 4, 2, steps=8)
    assert found.losses[0] == pytest.approx(math.log(128), abs=0.3)
    assert found.losses[-1] < found.losses[0] - 0.2


def test_torchtitans_tensor_parallelism_averages_the_losses():
    found = learned(TITAN, 4, 2, steps=2, name="torchtitan==0.2.2")
    assert all(map(math.isfinite, found.losses + found.grad_norms))
    assert found.losses[0] == pytest.approx(math.log(2048), abs=1.0)


@each(
    ("text", "ranks", "name", "why"),
    [
        (BF16 + TP, 1, "kempnerforge", "tensor parallelism of 2 by one rank"),
        (SMALL + TP, 2, "kempnerforge", "FP8 with tensor parallelism of 2"),
        (
            BF16.replace("[model]\n", "[model]\ntie_embeddings = true\n") + TP,
            2,
            "kempnerforge",
            "tied embeddings with tensor parallelism of 2",
        ),
        (BF16 + "[distributed]\npp = 2\n", 2, "kempnerforge", "pipeline parallelism"),
        (
            BF16.replace("[model]\n", f"[model]\n{MOE}") + "[distributed]\nep = 2\n",
            2,
            "kempnerforge",
            "expert parallelism of 2: it is not built",
        ),
        (
            TITAN.replace("llama3", "qwen3").replace("debugmodel", "1.7B"),
            2,
            "torchtitan==0.2.2",
            "tied embeddings",
        ),
        (
            TITAN.replace("llama3", "qwen3").replace("debugmodel", "14B"),
            2,
            "torchtitan==0.2.2",
            "norms of queries and keys with tensor parallelism of 2",
        ),
        (
            TITAN.replace("[training]", 'converters = ["float8"]\n[training]', 1),
            2,
            "torchtitan==0.1.0",
            "FP8 with tensor parallelism of 2",
        ),
    ],
)
def test_what_no_ranks_represent(text, ranks, name, why):
    with pytest.raises(CannotBuild, match=why):
        runner(text, ranks, name=name).spec({})


FAULTY = str(Path(__file__).with_name("faulty_rank.py"))


def failed(mode, seconds=3600.0):
    """The record of a trial whose ranks fail in one way, and how long it took."""
    faulty = runner(BF16, 3, 3, worker=(sys.executable, FAULTY, mode))
    start = time.monotonic()
    found = faulty.run({}, TrialLimits(seconds))
    return found, time.monotonic() - start


@each(
    ("mode", "outcome", "message"),
    [
        ("oom", "oom", "OutOfMemoryError: CUDA out of memory (rank 1)"),
        ("late-word", "oom", "OutOfMemoryError: CUDA out of memory (rank 1)"),
        (
            "killed",
            "oom",
            "killed in stage steady, probably because host memory ran out (rank 1)",
        ),
        ("torn", "user", "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection "),
    ],
)
def test_the_rank_that_failed_first_ends_all(mode, outcome, message):
    found, took = failed(mode)
    assert (found.outcome, found.message[: len(message)]) == (outcome, message)
    assert took < 60


def test_ranks_that_hang_end_at_the_deadline():
    found, _ = failed("hang", seconds=3.0)
    assert found.outcome == "hang"
    assert found.message == "stopped at its deadline in stage steady"


def test_the_environment_of_a_rank(monkeypatch):
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found, _ = failed("environment")
    text = found.message.removeprefix("Environment: ").removesuffix(" (rank 1)")
    cores = len(os.sched_getaffinity(0))
    assert json.loads(text) == {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "3",
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "ib0",
        "OMP_NUM_THREADS": str(max(1, cores // 3)),
    }


def test_ranks_end_with_the_process_that_started_them():
    command = [*launch.COMMAND, str(os.getpid()), "2", sys.executable, FAULTY, "hang"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert b"steady" in process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == b""  # the ranks held it open, and are gone


def test_a_symptom_is_blamed_only_without_a_cause():
    def end(at, rank, message):
        return End(at, rank, 1, {"failed": {"message": message}})

    lost = end(1.0, 0, "Connection reset by peer")
    cause = end(2.0, 1, "CUDA out of memory")
    later = end(3.0, 2, "CUDA out of memory")
    assert first_cause([lost, later, cause]) == cause
    assert first_cause([lost]) == lost
    assert first_cause([lost, End(9.0, 3, -6, None)]) == End(9.0, 3, -6, None)
