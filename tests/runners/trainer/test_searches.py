"""Real training with the in-house trainer of the guide: trials, and a whole search."""

import json
import shutil
import statistics
import tomllib

import pytest

from fp8tune.trainers.about import trainers
from fp8tune.trials.runner import TrialLimits
from tests.runners.trainer.conftest import EXAMPLE, runner_of

ONE_LINEAR = "convert_to_float8_training(model, module_filter_fn=inside)"


@pytest.fixture
def trial(tmp_path):
    """Run one trial of the example, with a changed program."""

    def run(change=("", ""), ranks=1, **knobs):
        folder = tmp_path / "trainer"
        shutil.copytree(EXAMPLE, folder)
        program = folder / "train.py"
        program.write_text(program.read_text().replace(*change))
        ready = runner_of(folder, tmp_path / "scratch", ranks)
        return ready.run(knobs, TrialLimits(120.0))

    return run


def test_fp8_is_proved_by_its_own_profile(trial):
    found = trial(**{"train.recompute": "none"})
    assert found.outcome == "ok", found.message
    # 2 blocks of 2 linears, forward and two gradients, in 4 micro-batches
    assert found.float8_matmuls == 2 * 2 * 3 * 4
    assert found.all_step_ms[0] > 0
    assert found.extra["time_from"] == "tokens_per_second"


def test_fp8_that_is_only_claimed_is_not_ok(trial):
    found = trial((ONE_LINEAR, "print('Applied Float8 training: all linears')"))
    assert (found.outcome, found.float8_matmuls) == ("user", None)
    assert found.message.startswith("FP8 was asked for, but none of 76 GEMMs"), (
        found.message
    )


def test_two_ranks_train_together(trial):
    found = trial(ranks=2, **{"train.batch": 4, "train.precision": "bf16"})
    assert found.outcome == "ok", found.message
    assert found.grad_accum == 2
    middle_s = statistics.median(found.step_ms) / 1e3
    assert found.tokens_per_second * middle_s == pytest.approx(2 * 4 * 2 * 32)


def test_a_search_with_the_users_own_trainer(project, fp8tune):
    root = project()
    shutil.copytree(EXAMPLE, root, dirs_exist_ok=True)
    text = (root / "train.toml").read_text()
    text = text.replace("batch = 2", "batch = 1").replace("te = 4", "te = 2")
    (root / "train.toml").write_text(text)
    # a run that resumed from this would end at once
    (root / "checkpoints").mkdir()
    (root / "checkpoints/last.pt").write_text("of another run")
    asked = ("--runner", "command", "--trainer", "./ours.toml", "--trainer-dir", ".")
    done = fp8tune(
        *("search", "train.toml", *asked, "--device", "cpu", "--budget", "24s"),
        *("--output-format", "json", "--export", "trials.jsonl"),
    )
    assert done.code == 0, done.err
    lines = (root / "trials.jsonl").read_text().splitlines()
    records = list(map(json.loads, lines))
    assert {record["outcome"] for record in records} == {"ok"}
    speeds = [record for record in records if "loss_run" not in record]
    assert all(record["float8_matmuls"] for record in speeds)
    # how many runs a machine has time for, and which setting is fastest, differs
    ran = [json.dumps(record["knobs"]) for record in speeds]
    again = [knobs in ran[:place] for place, knobs in enumerate(ran)]
    assert again == ["float8_matmuls_counted_earlier" in record for record in speeds]
    tuned = tomllib.loads((root / "train.tuned.toml").read_text())
    knobs = {f"train.{key}": value for key, value in tuned["train"].items()}
    assert knobs == knobs | done.json["knobs"]
    assert tuned["run"]["checkpoints"] == "checkpoints"
    assert (root / "checkpoints/last.pt").read_text() == "of another run"
    assert not list(root.glob(".fp8tune/*/fp8tune-*"))
    del trainers()["ours"]  # another process reads its file again
    listed = fp8tune("studies")
    assert listed.code == 0
    assert "this version did not" not in listed.out + listed.err
    (root / "ours.toml").unlink()
    del trainers()["ours"]
    assert f"no trainer ours; {root}/ours.toml" in fp8tune("studies").err
