"""Whole trials on the CPU: their stages, and when they end."""

import json
import signal
import statistics
import subprocess
import sys

import pytest

from fp8tune.runners import sampling
from fp8tune.runners.builtin.convert import build
from fp8tune.runners.builtin.data import batches
from fp8tune.runners.builtin.step import Training
from fp8tune.runners.sampling import Sampling
from fp8tune.search.saved_study import look
from fp8tune.trials.record import Record
from fp8tune.trials.runner import TrialLimits
from tests.conftest import REPOSITORY
from tests.runners.builtin.small import SMALL, runner, spec

LONG = TrialLimits(3600)
"""What only a trial which hangs takes."""


def test_a_whole_trial_with_proof_of_fp8():
    found = runner().run({"train.activation_checkpointing": "none"}, LONG)
    assert (found.outcome, len(found.step_ms) >= 2) == ("ok", True)
    assert found.tokens_per_second > 0
    # 15 linears, two micro-batches, one matmul forward and two backward
    assert found.float8_linears == 15
    assert found.float8_matmuls == 15 * 2 * 3
    assert found.rehearsal is found.synthetic_data is True
    every = found.all_step_ms
    assert tuple(every[-len(found.step_ms) :]) == found.step_ms
    assert found.discarded[0] == (0, 1, "warm-up")
    low, high = found.median_step_ms_95
    assert low <= statistics.median(found.step_ms) <= high
    assert "tokens_per_joule" not in found.data()
    assert json.loads(found.line())["outcome"] == "ok"


def test_a_trial_imports_nothing_of_the_folder_it_starts_in(tmp_path, monkeypatch):
    trap = "raise RuntimeError('imported')\n"
    for name in ("profile.py", "torchao.py", "fp8tune.py"):  # what torch and we import
        (tmp_path / name).write_text(trap, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert runner().run({"train.mixed_precision": "bf16"}, LONG).outcome == "ok"


def stages(text):
    """The stages of a whole trial, and its record."""
    made, heard = runner(text), []
    made.hear = lambda line: heard.append(line.get("stage"))
    found = made.run({}, LONG)
    return [stage for stage in heard if stage], found


def test_a_trial_tells_its_stages(in_this_process):
    eager, found = stages(SMALL)
    assert found.ok
    assert eager == ["import", "build", "convert", "first_step", "steady", "profile"]


def test_compiling_is_a_stage_and_what_fails_in_it_did_not_compile(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    seen, found = stages(SMALL.replace("compile_model = false", "compile_model = true"))
    assert seen == ["import", "build", "convert", "compile"]
    assert (found.outcome, found.stage_reached) == ("compile", "compile")


def test_compiling_teaches_the_model_nothing():
    made = spec(mixed_precision="bf16")
    plain = Training(build(made)[0], made, batches(made))
    compiled = Training(build(made)[0], made, batches(made))
    compiled.try_micro_batch()
    assert [compiled.step() for _ in range(2)] == [plain.step() for _ in range(2)]


def test_where_time_is_short_the_fewest_steps_have_to_do(in_this_process):
    made = runner(SMALL.replace("grad_accum_steps = 2", "grad_accum_steps = 1"))
    made.setup = made.setup._replace(sampling=Sampling(enough_s=0.0))
    found = made.run({}, LONG)
    assert found.ok
    assert len(found.step_ms) >= 3
    assert len(found.all_step_ms) < 2 + 40


def test_long_steps_run_some_of_their_micro_batches(in_this_process, monkeypatch):
    monkeypatch.setattr(sampling, "PART_S", 0.0)
    made = runner(SMALL.replace("grad_accum_steps = 2", "grad_accum_steps = 32"))
    told = []
    made.hear = told.append
    found = made.run({}, LONG)
    assert (found.outcome, found.micro_batches) == ("ok", 4), found.message
    steps = [line for line in told if "step" in line]
    assert [line["step_ms"] for line in steps] == list(found.all_step_ms)
    assert sum(line["step_ms"] for line in steps) > 4 * sum(s["ms"] for s in steps)
    middle = statistics.median(found.step_ms)
    assert found.tokens_per_second == pytest.approx(32 * 2 * 32 / middle * 1e3)
    # 14 linears of blocks, which are computed twice, and the head
    assert found.float8_matmuls == 32 * (14 * 4 + 3)


def test_a_repeat_takes_the_count_of_fp8_matmuls_from_the_first(in_this_process):
    found = runner().run({}, TrialLimits(3600, matmuls=1234))
    assert (found.outcome, found.float8_matmuls) == ("ok", 1234)
    assert found.extra["float8_matmuls_counted_earlier"] is True


def test_steps_go_on_as_long_as_watts_are_sampled(in_this_process):
    made = runner()
    made.setup = made.setup._replace(sampling=Sampling(1, 2, least_s=1.0))
    times = made.run({}, LONG).all_step_ms
    assert sum(times[1 + made.setup.sampling.warm_steps :]) >= 1000.0


@pytest.mark.parametrize(
    ("device", "own", "least"),
    [("cuda", 3.0, 10.0), ("cuda", 12.0, 12.0), ("cpu", 0, 0)],
)
def test_only_on_a_gpu_does_a_trial_take_the_time_it_is_asked_for(device, own, least):
    made, asked = runner(), []

    def trial(knobs, spec, _limits):
        asked.append(spec)
        return Record(knobs, "oom")

    made.setup = made.setup._replace(device=device, sampling=Sampling(least_s=own))
    made._trial = trial
    made.run({}, TrialLimits(3600, least_s=10.0))
    assert asked == [made.spec({})._replace(sampling=Sampling(least_s=least))]


def test_a_trial_that_is_given_no_time():
    found = runner().run({}, TrialLimits(0.3))
    assert (found.outcome, found.step_ms) == ("launch", ())


def test_a_rehearsal_that_is_killed_goes_on(project, monkeypatch):
    root = project({"a.toml": SMALL})
    monkeypatch.setenv("PYTHONPATH", ":".join([str(REPOSITORY), *sys.path]))
    command = [sys.executable, "-m", "fp8tune", "search", "a.toml", "--device", "cpu"]
    command += ["--budget", "24h"]
    known = []
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            lines = iter(process.stdout.readline, b"")
            before = [next(lines)]
            while not before[-1].startswith(b"  "):  # the result of a trial
                before.append(next(lines))
            process.send_signal(number)
            after = process.stdout.read()
        (path,) = root.glob(".fp8tune/*/study.journal")
        _, trials = look(str(path.parent))
        assert trials[: len(known)] == known
        assert len(trials) > len(known)
        known = trials
    assert process.returncode == 130
    said = b"".join([*before, after]).decode()
    assert said.startswith(
        "the config names no training data: trials train on synthetic "
    )
    assert "\nspeeds are for a run on 1 GPU, as nothing says " in said
    assert "stopped: the same command continues from here" in said
    assert [trial.stage for trial in trials[:2]] == ["baseline", "search"]
