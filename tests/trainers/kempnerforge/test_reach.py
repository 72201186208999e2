"""What of a config a run reaches."""

import pytest

from fp8tune.trainers.kempnerforge import reach
from tests.each import each


@each(
    ("phases", "anneal", "weights", "late"),
    [
        ([], 0, {}, 0),
        ([{"start_step": 50}], 0, {}, 50),
        ([{"start_step": 70}, {"start_step": 60}, {}], 0, {}, 60),
        ([], 50, {"a": 1.0}, 50),
        ([], 50, {}, 0),
    ],
)
def test_late_phase(phases, anneal, weights, late):
    mixture = [{"path": "a"}]
    assert reach.late_phase(50, mixture, phases, anneal, weights) == late
    assert reach.late_phase(50, [], phases, anneal, weights) == 0


@each(
    ("folder", "path", "own"),
    [
        ("ckpt/7b", "ckpt/7b/step_500", True),
        ("./ckpt/7b/", "ckpt//7b/step_500/", True),
        ("ckpt/7b", "ckpt/7b", False),
        ("ckpt/7b", "ckpt/7b/latest", False),
        ("ckpt/7b", "ckpt/7b-old/step_500", False),
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
        ("step_" + 30 * "9", -1),
    ],
)
def test_load_path_step(path, step):
    assert reach.load_path_step(path) == step


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
