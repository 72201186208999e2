"""What of a config a run reaches."""

import pytest

from fp8tune.trainers.kempnerforge import reach
from tests.each import each


@pytest.mark.parametrize(
    ("interval", "steps", "count"),
    [(10, 100, 10), (30, 100, 4), (1000, 20, 1), (1, 1, 1), (20, 20, 1)],
)
def test_checkpoints(interval, steps, count):
    assert reach.checkpoints(interval, steps) == count


@each(
    ("phases", "anneal", "weights", "late"),
    [
        ([], 0, {}, 0),
        ([{"start_step": 49}], 0, {}, 0),
        ([{"start_step": 50}], 0, {}, 50),
        ([{"start_step": 70}, {"start_step": 60}, {}], 0, {}, 60),
        ([], 50, {"a": 1.0}, 50),
        ([], 50, {}, 0),
        ([{"start_step": "50"}, 5], 0, {}, 0),
    ],
)
def test_late_phase(phases, anneal, weights, late):
    mixture = [{"path": "a"}]
    assert reach.late_phase(50, mixture, phases, anneal, weights) == late
    assert reach.late_phase(50, [], phases, anneal, weights) == 0


@pytest.mark.parametrize(("start", "late"), [(0, 0), (29, 0), (30, 30), (90, 90)])
def test_late_stage(start, late):
    assert reach.vlm_late_stage(30, [{"start_step": start, "specs": []}]) == late


@each(
    ("folder", "path", "own"),
    [
        ("ckpt/7b", "ckpt/7b/step_500", True),
        ("./ckpt/7b/", "ckpt//7b/step_500/", True),
        ("/a/b", "/a/c/../b/step_1", True),
        ("ckpt/7b", "ckpt/7b", False),
        ("ckpt/7b", "ckpt/7b/latest", False),
        ("ckpt/7b", "ckpt/7b-old/step_500", False),
        ("ckpt", "/ckpt/step_500", False),
        ("step_1", "step_1", False),
    ],
)
def test_resumes_from_own_folder(folder, path, own):
    assert reach.resumes_from_own_folder(folder, path) is own


@each(
    ("path", "step"),
    [
        ("ckpt/7b/step_500", 500),
        ("ckpt/7b//step_0/", 0),
        ("ckpt/7b/latest", -1),
        ("ckpt/step_500/model", -1),
        ("models/first_step_5", -1),
        ("step_", -1),
        ("step_1e3", -1),
        ("step_" + 30 * "9", -1),
    ],
)
def test_load_path_step(path, step):
    assert reach.load_path_step(path) == step


@each(
    ("warmup", "decay", "stable"),
    [
        (0, None, 900),
        (100, None, 800),
        (100, 300, 600),
        (100, 0, 800),
        (100, 2000, 800),
        (900, None, 50),
        (998, None, 1),
    ],
)
def test_wsd_stable_steps(warmup, decay, stable):
    assert reach.wsd_stable_steps(1000, warmup, decay) == stable


@each(
    ("schedule", "shape", "alpha", "end"),
    [
        ("linear", "cosine", 1.0, 0.55),
        ("cosine", "linear", 1.0, 0.55),
        ("wsd", "linear", 1.0, 0.55),
        ("wsd", "sqrt", 1.0, 0.1 + 0.9 * 0.5**0.5),
        ("rex", "cosine", 2.0, 0.25),
        ("rex", "cosine", 4.0, 0.1),
    ],
)
def test_the_share_of_the_peak_in_the_last_step(schedule, shape, alpha, end):
    """The step before the last is number 50 of a decay of 100."""
    found = reach.schedule_end(schedule, 51, 100, 0.1, shape, alpha)
    assert found == pytest.approx(end)


@pytest.mark.parametrize(
    ("optimizer", "state", "size"),
    [("adamw", 4, 6e9), ("lion", 2, 4e9), ("muon", 2.5, 3.5e9)],
)
def test_the_size_of_a_checkpoint(optimizer, state, size):
    found = reach.checkpoint_bytes(False, 1, 1, 10**9, optimizer, 2, state)
    assert found == pytest.approx(size)
