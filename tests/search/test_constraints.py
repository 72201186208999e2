"""What Optuna, its samplers and optuna-dashboard see of what may be chosen."""

import importlib.util

import optuna
import pytest
from optuna.samplers import GPSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

from fp8tune.search.saved_study import look
from fp8tune.search.study import Study
from tests.each import each
from tests.search.losses import runs as made
from tests.search.losses.runs import learned, seeds
from tests.search.replayed import RECORDS
from tests.search.tries import BEST, BF16, GIVEN, SPACE, ran, trials

FITS = {"memory_gib": 0.0, "alloc_retries": 0.0, "nan": 0.0, "failed": 0.0}
FITS |= {"no_fp8": 0.0}


def told(*pairs):
    """The last of some trials of a search for FP8, in Optuna, and its constraints."""
    study = Study(SPACE)
    study.describe({"given": list(GIVEN)})
    for stage, record in pairs:
        study.add(stage, record)
    trial = study.optuna.trials[-1]
    constraints = trial.constraints
    assert constraints.pop("0") == max(constraints.values()), "for optuna-dashboard"
    return trial.state.name, constraints


def on_gpu(reserved_gib, capacity_gib=100.0, **more):
    return {
        "reserved_gib": reserved_gib,
        "more": {"capacity_gib": capacity_gib, **more},
    }


@each(
    ("record", "state", "violated"),
    [
        (ran(BEST), "COMPLETE", {}),
        (ran(BEST, **on_gpu(60.0)), "COMPLETE", {"memory_gib": -32.0}),
        (ran(BEST, **on_gpu(95.0)), "COMPLETE", {"memory_gib": 3.0}),
        (
            ran(BEST, **on_gpu(60.0, alloc_retries=2)),
            "COMPLETE",
            {"memory_gib": -32.0, "alloc_retries": 2.0},
        ),
        (ran(BEST, outcome="oom", **on_gpu(0.0)), "PRUNED", {"memory_gib": 8.0}),
        (ran(BEST, outcome="oom"), "PRUNED", {"memory_gib": 1.0}),
        (ran(BEST, outcome="nan"), "PRUNED", {"nan": 1.0, "failed": 1.0}),
        (ran(BEST, outcome="hang"), "PRUNED", {"failed": 1.0}),
        (ran(BEST, outcome="launch"), "FAIL", {"failed": 1.0}),
        (ran(BF16), "COMPLETE", {"no_fp8": 1.0}),
        (
            ran(BEST, outcome="user", more={"float8_matmuls": 0}),
            "PRUNED",
            {"failed": 1.0, "no_fp8": 1.0},
        ),
    ],
)
def test_a_trial_says_what_its_setting_violates(record, state, violated):
    assert told(("search", record)) == (state, {**FITS, **violated})


def loss_runs(*curves):
    return [("stability", learned(run)) for run in curves]


def test_a_loss_run_says_how_far_the_losses_of_fp8_are_from_those_of_bf16():
    bf16 = seeds()
    like, above = seeds("fp8", 0.0), seeds("fp8", 0.5)
    assert told(*loss_runs(*bf16)) == ("FAIL", {**FITS, "no_fp8": 1.0})
    state, constraints = told(*loss_runs(*bf16, *like))
    assert state == "FAIL"
    assert constraints.pop("loss_gap") <= 0
    assert constraints == FITS
    state, constraints = told(*loss_runs(*bf16, *above))
    assert state == "PRUNED"
    assert constraints["loss_gap"] == pytest.approx(0.5, abs=0.01)
    lost = [made.curve("fp8", seed=run.loss_run.seed, nan=True) for run in like]
    assert told(*loss_runs(*bf16, *lost))[1]["loss_gap"] == 1.0


HAS_SCIPY = importlib.util.find_spec("scipy") is not None
FASTER = [  # each for a reason not to be chosen
    ran((3, 0, 1, 1), 400, **on_gpu(95.0)),
    ran((2, 0, 1, 1), 300, more={"alloc_retries": 1}),
    ran(BF16, 200),
]


@pytest.mark.parametrize(
    "sampler",
    [
        TPESampler(seed=0, n_startup_trials=1),
        pytest.param(
            GPSampler(seed=0, n_startup_trials=1),
            marks=pytest.mark.skipif(not HAS_SCIPY, reason="no SciPy"),
        ),
    ],
    ids=["tpe", "gp"],
)
def test_optuna_itself_goes_on_from_a_finished_search(replay, tmp_path, sampler):
    """Its best trial is feasible, and its samplers take the trials."""
    given, _, best, best_in_bf16, _ = RECORDS
    assert replay([given, best, best_in_bf16, *FASTER]).code == 0
    (journal,) = (tmp_path / ".fp8tune").glob("*/study.journal")
    storage = JournalStorage(JournalFileBackend(str(journal)))
    study = optuna.load_study(study_name=None, storage=storage, sampler=sampler)
    assert study.metric_names == ["tokens/s"]
    assert max(trial.value or 0.0 for trial in study.trials) == 400.0
    assert study.best_params == SPACE.values(BEST)
    asked = study.ask(study.best_trial.distributions)
    assert asked.params.keys() == study.best_params.keys()


def test_a_study_of_an_earlier_version_opens(tmp_path):
    """Its trials have one constraint without a name, and more user attributes."""
    study = Study(SPACE, str(tmp_path / "s"))
    alone = {"stage": "search", "process": 0}
    rest = {"cost_s": 60.0, "tokens_per_second": 100.0, "reserved_gib": 95.0}
    for outcome, state in (("ok", TrialState.COMPLETE), ("oom", TrialState.PRUNED)):
        values = {"value": 100.0} if outcome == "ok" else {}
        study.optuna.add_trial(
            create_trial(
                state=state,
                params=SPACE.values(BEST),
                distributions=study.distributions,
                user_attrs={
                    **alone,
                    "outcome": outcome,
                    "capacity_gib": 100.0,
                    "record": rest,
                },
                system_attrs={"constraints": [float(outcome == "oom")]},
                **values,
            )
        )
    more = {"capacity_gib": 100.0}
    assert look(str(tmp_path / "s"))[1] == trials(
        ("search", ran(BEST, reserved_gib=95.0, more=more)),
        ("search", ran(BEST, 100, "oom", more={**more, **rest})),
    )
    again = Study(SPACE, str(tmp_path / "s"))
    again.add("search", ran(GIVEN, 110))
    assert again.optuna.best_params == SPACE.values(GIVEN)
