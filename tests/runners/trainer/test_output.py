"""The steps of real lines: their times, what is left out, and when they are enough."""

import itertools

import pytest

from fp8tune.job import Target
from fp8tune.runners.process import Ended
from fp8tune.runners.trainer import output
from fp8tune.runners.trainer.output import Output, Wanted, resolution
from fp8tune.runners.trainer.recipe import Keys, Profile
from fp8tune.runners.trainer.record import base_record
from fp8tune.trainers.trainer import trainer
from tests.each import each
from tests.runners.trainer.conftest import FEW

KEMPNERFORGE = (
    "[rank 0] INFO     [step {step}] loss=5.5 | lr=3.00e-05 | grad_norm=1.2 | "
    "tok/s={speed:,.0f} | mfu=5.0% | mem=7.1/80GB | step_time={seconds:.2f}s\n"
)
TORCHTITAN = (
    "[titan] 2025-12-14 04:41:25,709 - root - INFO - step: {step}  loss:  5.5  "
    "grad_norm:  1.2  memory: 34.43GiB(43.21%)  tps: {speed:,.0f}  mfu: 18.84%\n"
)
MEGATRON = (
    " [2026-11-28 07:19:37.112485] iteration {step:8d}/    5000 | consumed samples:"
    "          128 | elapsed time per iteration (ms): {ms:.1f} | learning rate: "
    "6.976744E-08 | global batch size:   128 | lm loss: 1.043863E+01 | loss scale: 1.0 "
    "| grad norm: 26.203 | number of skipped iterations:   0 | number of nan "
    "iterations:   0 |\n"
)
RECOMPILED = (
    "V1123 torch/_dynamo/guards.py:1] [0/1] [__recompiles] Recompiling function"
)
TOKENS = 4096


@pytest.fixture
def clock(monkeypatch):
    """Let the time go on by so many seconds before each line."""
    times = itertools.count()
    pace = {"s": 0.1}
    monkeypatch.setattr(output.time, "time", lambda: pace["s"] * next(times))
    return pace


def listen(trainer, line, seconds, count=12, tokens=TOKENS, ranks=1, **more):
    """Return the output of so many steps, and after which it was enough."""
    wanted = Wanted(trainer, ranks, tokens, FEW, 600.0, **more)
    heard, enough = Output(wanted, lambda _event: None), 0
    for step in range(1, count + 1):
        speed = tokens / seconds / (ranks if trainer == "torchtitan" else 1)
        text = line.format(step=step, speed=speed, seconds=seconds)
        if heard.feed(text.encode()) == "enough":
            enough = enough or step
    return heard, enough


@each(
    ("trainer", "line", "seconds", "tokens", "pace", "source", "ms"),
    [
        # 12.3 ms are printed as 0.01 s, and 333,008 tokens/s
        (
            "kempnerforge",
            KEMPNERFORGE,
            0.0123,
            TOKENS,
            0.0123,
            "tokens_per_second",
            12.3,
        ),
        # 128 tokens in 1.234 s are 104 tokens/s, and 1.23 s
        ("kempnerforge", KEMPNERFORGE, 1.234, 128, 1.234, "lines", 1234.0),
        ("kempnerforge", KEMPNERFORGE, 12.34, 128, 12.34, "step_s", 12340.0),
        ("torchtitan", TORCHTITAN, 0.5, TOKENS, 0.5, "tokens_per_second", 500.0),
        # lines that come at once tell nothing
        ("torchtitan", TORCHTITAN, 0.5, 50, 0.0, "tokens_per_second", 500.0),
    ],
)
def test_the_most_precise_time_is_taken(
    clock, trainer, line, seconds, tokens, pace, source, ms
):
    clock["s"] = pace
    heard, _ = listen(trainer, line, seconds, tokens=tokens)
    times = heard.times()
    assert times.source == source
    assert times.ms[3] == pytest.approx(ms, rel=0.002)
    assert times.between_ms == pytest.approx(pace * 1e3, rel=0.01)


def test_tokens_per_second_of_one_gpu_count_for_all(clock):
    heard, _ = listen("torchtitan", TORCHTITAN, 0.5, ranks=8)
    assert heard.times().ms[0] == pytest.approx(500.0)


def test_profiled_steps_do_not_count(clock):
    """Of torchtitan: from step 7 to 11, and again from 17."""
    profile = Profile(Keys(), 7, 10, 10)
    more = {"profile": profile, "is_written": lambda: True}
    heard, enough = listen("torchtitan", TORCHTITAN, 0.5, count=20, **more)
    steps = [heard.curve.step[index] for index in heard.times().index]
    assert steps == [*range(1, 7), *range(12, 17)]
    assert enough == 11  # the profile is there, and three steps count before it


def test_a_profile_that_does_not_come_is_not_waited_for_long(clock):
    profile = Profile(Keys(), 2, 3)
    _, enough = listen("torchtitan", TORCHTITAN, 0.5, profile=profile)
    assert enough == 3 + output.PATIENCE + 1 or enough == 8


def test_steps_after_a_recompile_count(clock):
    wanted = Wanted("torchtitan", 1, TOKENS, FEW, 600.0)
    heard = Output(wanted, lambda _event: None)
    for step in range(1, 12):
        if step == 6:
            heard.feed(f"{RECOMPILED} forward in model.py:12\n".encode())
        heard.feed(TORCHTITAN.format(step=step, speed=9000.0).encode())
    _, steps = heard.steps()
    found = steps.steady()
    assert (found.start, found.left[-1].why) == (6, "recompile")


def test_stages_follow_the_lines():
    wanted = Wanted("kempnerforge", 1, TOKENS, FEW, 600.0, compiles=True)
    stages = []
    heard = Output(wanted, lambda event: stages.append(event.get("stage", "step")))
    for line in (
        "importing torch",
        "[rank 0] INFO     DeviceMesh: dims=['dp_shard'], sizes=[1], world_size=1",
        "[rank 0] INFO     Compiling model with torch.compile...",
        "[rank 0] INFO     Starting training: step=0, max_steps=9, batch_size=2, "
        "grad_accum=1, world_size=1",
        KEMPNERFORGE.format(step=1, speed=9000.0, seconds=0.5).strip(),
    ):
        heard.feed(f"{line}\n".encode())
    assert stages == ["build", "compile", "steady", "step"]


def test_what_is_printed_without_a_time_is_never_the_most_precise():
    assert resolution([]) == resolution([0.0]) == float("inf")


def test_megatron_s_steps_make_a_record(clock):
    clock["s"] = 1.5
    wanted = Wanted("megatron", 8, 128 * 4096, FEW, 600.0)
    heard = Output(wanted, lambda _event: None)
    said = ""
    for step, ms in enumerate((19138.8, 1510.4, 1500.1, 1502.2, 1501.1, 1500.9), 1):
        said = heard.feed(MEGATRON.format(step=step, ms=ms).encode())
    known = trainer("megatron_lm")
    job = known.job(known.load({}), Target("", 8))
    found = base_record({}, heard, Ended(said, 0, 30.0), job)
    assert (found.outcome, found.message) == ("ok", "")
    assert found.step_ms == (1500.1, 1502.2, 1501.1, 1500.9)
    assert found.tokens_per_second == pytest.approx(128 * 4096 / 1.501, rel=1e-4)
    assert found.extra["time_from"] == "step_s"
