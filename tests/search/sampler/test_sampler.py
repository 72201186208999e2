"""The samplers on small made landscapes, through plain Optuna."""

import ast
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

import fp8tune.search.sampler as package
from fp8tune.search.sampler import (
    Expected,
    FeasibleSampler,
    ThroughputSampler,
    library_sampler,
)

FOLDER = Path(package.__file__).parent
HAS_SCIPY = importlib.util.find_spec("scipy") is not None
LIBRARY = [
    "tpe",
    "random",
    pytest.param("gp", marks=pytest.mark.skipif(not HAS_SCIPY, reason="no SciPy")),
]
GRID = {"batch": [1, 2, 3, 4, 6, 8, 12, 16], "ac": ["none", "full"], "fast": [0, 1]}
ROLES = {"batch": "batch", "ac": "ac"}
BASELINE = {"batch": 1, "ac": "full", "fast": 0}
USABLE = 75.0
BEST = {"batch": 4, "ac": "none", "fast": 1}


def peak_gib(params):
    return 20 + params["batch"] * (12.0 if params["ac"] == "none" else 4.0)


def speed(params):
    found = 9000 * params["batch"] / (params["batch"] + 0.5)
    found *= 1.0 if params["ac"] == "none" else 0.76
    return found * (1.1 if params["fast"] == 1 else 1.0)


def run(study, sampler, outcome=None):
    """Run a trial of what the study asks for; return its setting."""
    trial = study.ask(sampler.distributions)
    params = trial.params
    told = (outcome and outcome(params)) or "ok"
    told = "oom" if peak_gib(params) > USABLE else told
    tell(study, trial, told)
    return params


def tell(study, trial, outcome):
    if outcome == "ok":
        trial.set_user_attr("peak_gib", peak_gib(trial.params))
        study.tell(trial, speed(trial.params))
    elif outcome == "passing":
        study.tell(trial, state=TrialState.FAIL)
    else:
        trial.set_constraint("failed", float(outcome == "failed"))
        study.tell(trial, state=TrialState.PRUNED)


def create(sampler, *enqueued):
    study = optuna.create_study(sampler=sampler, direction="maximize")
    for params in enqueued or (BASELINE,):
        study.enqueue_trial(params)
    return study


def search(study, sampler, most=40, outcome=None):
    """Run the baseline, then what is proposed until nothing is; return all settings."""
    tried = [run(study, sampler, outcome)]
    while len(tried) < most and (proposal := sampler.proposal(study)):
        tried.append(run(study, sampler, outcome))
        assert tried[-1] == proposal.params
    return tried


def ours(**options):
    return ThroughputSampler(GRID, **ROLES, **options)


def around(name, **options):
    return FeasibleSampler(library_sampler(name), GRID, **ROLES, **options)


def oom(tried):
    return [params for params in tried if peak_gib(params) > USABLE]


def test_the_example_of_the_documentation_runs():
    text = package.__doc__.split("::\n", 1)[1].split("\nAn objective", 1)[0]
    names = {}
    exec(textwrap.dedent(text), names)
    study = names["study"]
    assert study.best_params == {"batch": 4, "ac": "none", "compile": True}
    assert len(study.trials) < 20


def test_the_package_stands_alone():
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [getattr(node, "module", None)]
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                for name in names:
                    root = name.split(".")[0]
                    own = name.startswith("fp8tune.search.sampler")
                    known = root in {"numpy", "optuna", *sys.stdlib_module_names}
                    assert own or known, f"{path.name} imports {name}"
    program = "import sys, fp8tune.search.sampler; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name for name in found.stdout.split() if name.startswith("fp8tune")}
    outside = {name for name in loaded if "sampler" not in name}
    assert outside == {"fp8tune", "fp8tune.search"}
    assert "torch" not in found.stdout.split()


def test_it_finds_the_best_in_few_trials_and_ends():
    sampler = ours(capacity_gib=79.1)
    study = create(sampler)
    tried = search(study, sampler)
    assert study.best_params == BEST
    assert len(tried) <= 10
    assert len(oom(tried)) <= 1
    assert sampler.proposal(study) is None


def test_a_good_estimate_needs_fewer_trials_and_none_runs_out_of_memory():
    def expected(params):
        return Expected(1.1 * peak_gib(params), 0.3 * speed(params))

    sampler = ours(capacity_gib=79.1, expected=expected)
    study = create(sampler)
    tried = search(study, sampler)
    assert study.best_params == BEST
    assert len(tried) <= 8
    assert not oom(tried)


@pytest.mark.parametrize("make", [ours, *LIBRARY])
def test_no_setting_runs_twice_and_no_larger_batch_than_one_without_memory(make):
    sampler = ours() if make is ours else around(make)
    study = create(sampler)
    tried = search(study, sampler)
    assert len({tuple(params.values()) for params in tried}) == len(tried)
    assert all(params[key] in GRID[key] for params in tried for key in GRID)
    limits = {}
    for params in tried:
        cell = params["ac"], params["fast"]
        assert params["batch"] < limits.get(cell, 99)
        if params in oom(tried):
            limits[cell] = params["batch"]


@pytest.mark.parametrize("make", [ours, *LIBRARY])
def test_a_search_that_was_killed_goes_on_as_if_it_had_not_been(make):
    def build():
        return ours() if make is ours else around(make, seed=3, warm_starts=2)

    whole = create(build())
    settings = search(whole, whole.sampler, most=7)
    for done in (2, 5):
        resumed = optuna.create_study(sampler=build(), direction="maximize")
        resumed.add_trials(whole.trials[:done])
        later = [run(resumed, resumed.sampler) for _ in range(done, len(settings))]
        assert later == settings[done:]


@pytest.mark.parametrize(
    ("outcomes", "again"),
    [
        (["passing"], True),
        (["passing", "passing"], False),
        (["failed"], False),
        (["oom"], False),
        (["ok"], False),
    ],
)
def test_a_setting_is_tried_again_only_after_a_failure_that_may_pass(outcomes, again):
    sampler = ThroughputSampler({key: [value] for key, value in BASELINE.items()})
    study = create(sampler, *[BASELINE] * len(outcomes))
    for outcome in outcomes:
        tell(study, study.ask(sampler.distributions), outcome)
    assert (sampler.proposal(study) is not None) == again


def test_what_does_not_compile_is_left_after_two_trials_of_a_cell():
    def outcome(params):
        return "failed" if params["fast"] == 1 and params["ac"] == "none" else "ok"

    sampler = ours(capacity_gib=79.1)
    study = create(sampler)
    tried = search(study, sampler, outcome=outcome)
    assert sum(outcome(params) == "failed" for params in tried) <= 2
    assert study.best_params == {"batch": 4, "ac": "none", "fast": 0} or (
        study.best_value > speed({"batch": 4, "ac": "none", "fast": 0})
    )


def test_a_value_that_always_fails_is_left_after_two_trials_that_it_explains():
    grid = {**GRID, "recipe": ["a", "b"], "filter": [0, 1], "gather": [0, 1]}
    sampler = ThroughputSampler(grid, **ROLES, capacity_gib=79.1)
    study = create(sampler, {**BASELINE, "recipe": "a", "filter": 0, "gather": 0})

    def outcome(params):
        return "failed" if params["recipe"] == "b" else "ok"

    tried = search(study, sampler, outcome=outcome)
    assert 1 <= sum(outcome(params) == "failed" for params in tried) <= 3
    assert study.best_value == speed(BEST)


def test_where_nothing_runs_it_ends():
    sampler = ours()
    study = create(sampler)
    tried = search(study, sampler, outcome=lambda _: "failed")
    assert len(tried) <= 12
    assert sampler.proposal(study) is None


def test_where_the_baseline_runs_out_of_memory_a_smaller_setting_comes_next():
    sampler = ours(capacity_gib=79.1)
    study = create(sampler, {"batch": 16, "ac": "full", "fast": 0})
    run(study, sampler)
    assert sampler.proposal(study).params["batch"] < 8
    search(study, sampler)
    assert study.best_params == BEST


def test_a_run_of_another_precision_teaches_and_is_never_proposed():
    settings = [
        {"batch": batch, "ac": ac, "precision": "fp8"}
        for batch in (1, 2, 3, 4)
        for ac in ("none", "full")
    ]
    knobs = {
        "batch": optuna.distributions.IntDistribution(1, 8, log=True),
        "ac": optuna.distributions.CategoricalDistribution(["none", "full"]),
        "precision": optuna.distributions.CategoricalDistribution(["bf16", "fp8"]),
    }
    sampler = ThroughputSampler(settings, **ROLES)
    study = create(sampler, settings[1], {**settings[1], "precision": "bf16"})
    asked = []
    for _ in range(6):
        trial = study.ask(knobs)  # wider than the grid, as the whole study has them
        asked.append(trial.params)
        trial.set_user_attr("peak_gib", peak_gib(trial.params))
        study.tell(trial, speed({**trial.params, "fast": 0}))
    assert [params["precision"] for params in asked].count("bf16") == 1
    assert all(params in settings for params in asked[2:])


def test_trials_that_compare_losses_tell_nothing():
    sampler = ours()
    study = create(sampler)
    run(study, sampler)
    before = sampler.proposal(study)
    study.enqueue_trial(BEST)
    trial = study.ask(sampler.distributions)
    trial.set_user_attr("stage", "stability")
    study.tell(trial, 1e9)
    assert sampler.proposal(study) == before


def test_a_knob_that_the_grid_lacks_is_refused():
    trial = optuna.create_study(sampler=ours()).ask()
    with pytest.raises(ValueError, match="`other` is not in the sampler's grid"):
        trial.suggest_int("other", 1, 3)


@pytest.mark.parametrize("grid", [{}, [], [{}], {"batch": []}, [{"a": 1}, {"b": 1}]])
def test_a_grid_without_settings_is_refused(grid):
    with pytest.raises(ValueError, match="grid"):
        ThroughputSampler(grid)


def test_every_value_is_tried_before_the_end():
    grid = {"batch": [1, 2, 4], "other": ["a", "b", "c"]}
    sampler = ThroughputSampler(grid, batch="batch")
    study = create(sampler, {"batch": 1, "other": "a"})
    for _ in range(9):
        trial = study.ask(sampler.distributions)
        study.tell(trial, 100.0)
        if sampler.proposal(study) is None:
            break
    assert {trial.params["other"] for trial in study.trials} == {"a", "b", "c"}


def test_a_value_whose_gain_the_estimate_excludes_is_not_tried():
    grid = {"batch": [1, 2, 4], "other": ["a", "b"]}

    def expected(params):
        return Expected(10.0, 100.0 if params["other"] == "a" else 30.0)

    for estimate, tried in ((expected, {"a"}), (None, {"a", "b"})):
        sampler = ThroughputSampler(grid, batch="batch", expected=estimate)
        study = create(sampler, {"batch": 1, "other": "a"})
        while len(study.trials) < 9 and sampler.proposal(study):
            study.tell(study.ask(sampler.distributions), 100.0)
        assert {trial.params["other"] for trial in study.trials} == tried


def test_a_batch_that_the_estimate_puts_above_the_line_through_the_others_waits():
    """The largest batch accumulates no gradients, so that it needs less memory."""

    def gib(params):
        return 30.0 if params["batch"] == 16 else 20.0 + 4 * params["batch"]

    def expected(params):
        tokens = 200.0 if params["batch"] == 8 else 100.0
        return Expected(gib(params), tokens, 0.05)

    sampler = ThroughputSampler(
        {"batch": [1, 2, 4, 8, 16]}, batch="batch", capacity_gib=40.0, expected=expected
    )
    study = create(sampler, {"batch": 1})
    trial = study.ask(sampler.distributions)
    trial.set_user_attr("peak_gib", gib(trial.params))
    study.tell(trial, 100.0)
    assert sampler.proposal(study).params == {"batch": 16}


def test_what_is_left_at_the_end():
    """A loop asks for the last few, and whether something promising may not fit."""
    sampler = ours(capacity_gib=40.0)
    study = create(sampler)
    search(study, sampler)
    assert sampler.last_few(study) is None, "many are left, and none of them fits"
    assert sampler.infeasible_gain(study) >= 0.0
    small = ThroughputSampler({"batch": [1, 2, 3, 4, 5]}, batch="batch")
    study = optuna.create_study(sampler=small, direction="maximize")
    study.enqueue_trial({"batch": 5})
    trial = study.ask(small.distributions)
    trial.set_user_attr("peak_gib", 30.0)
    study.tell(trial, 100.0)
    assert small.last_few(study).params["batch"] in {1, 2, 3, 4}


def test_a_study_that_goes_on_after_the_end_repeats_the_best():
    sampler = ours(capacity_gib=79.1)
    study = create(sampler)
    search(study, sampler)
    assert run(study, sampler) == BEST


def test_warm_starts_take_the_best_of_each_cell_by_the_estimate():
    sampler = around(
        "random",
        capacity_gib=79.1,
        warm_starts=4,
        expected=lambda params: Expected(peak_gib(params), speed(params), 0.01),
    )
    study = create(sampler)
    tried = search(study, sampler, most=5)[1:]
    best = [
        {"batch": batch, "ac": ac, "fast": fast}
        for ac, batch in (("none", 4), ("full", 12))
        for fast in (1, 0)
    ]
    assert tried == best


@pytest.mark.skipif(HAS_SCIPY, reason="SciPy is there")
def test_gp_without_scipy_says_what_to_install():
    with pytest.raises(ImportError, match="pip install scipy"):
        library_sampler("gp")
