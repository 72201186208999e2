"""The rehearsal's config: whatever a search of it chooses, the outcome lints clean."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.engine import check
from fp8tune.search.answer import answer
from fp8tune.search.plan import CannotPlan, read_config
from fp8tune.search.real import plan_for_trials
from fp8tune.search.reasons import choices
from fp8tune.search.writeback import write_back
from tests.conftest import REPOSITORY
from tests.search.tries import ran, trials

PATH = REPOSITORY / "configs" / "rehearsal_cpu.toml"
MORE = {"environment": "CPU, torch 2.13.0+cpu", "rehearsal": True}


@pytest.fixture(scope="module")
def plan():
    config = read_config(str(PATH), PATH.read_bytes(), Target("", 1))
    return plan_for_trials(config, (), "cpu")


def test_a_rehearsal_keeps_compile_and_precision(plan):
    frozen = {knob.role for knob in plan.space.knobs if knob.frozen}
    assert frozen == {"compile", "precision"}
    freed = plan_for_trials(plan.config, ("compile",), "cpu").space.knob("compile")
    assert not freed.frozen
    assert not plan_for_trials(plan.config, (), "cuda").space.knob("compile").frozen


def test_whatever_is_chosen_lints_clean(plan, rules):
    space, given = plan.space, plan.given
    points = [point for point in space.points(given) if point != given]
    assert len(points) == 11
    for point in points:
        fast = ran(point, 5000, space=space, peak_gib=0.5, more=MORE)
        tried = trials(
            ("given", ran(given, 1000, space=space)), ("search", fast), space=space
        )
        found = answer(space, given, tried, 60.0)
        assert found.chosen == point
        after = write_back(plan.config.data, choices(plan, found, "study-1"))
        report = check("a.toml", after, rules, Target())
        assert report.diagnostics == []


@pytest.mark.parametrize("name", ["compile", "train.compile_model"])
def test_what_is_allowed_is_freed(plan, name):
    assert not plan_for_trials(plan.config, (name,), "cpu").space.knob("compile").frozen


def test_a_knob_that_is_none(plan):
    with pytest.raises(CannotPlan, match=r"did you mean `precision`\?"):
        plan_for_trials(plan.config, ("precison",), "cpu")
