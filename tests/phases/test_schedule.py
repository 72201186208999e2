"""The written phases have the learning rates and the data of the unbroken run."""

import itertools
import tomllib

import pytest

from fp8tune.phases import CannotPlan
from fp8tune.phases.write import phase_configs
from fp8tune.trainers.trainer import trainer
from tests.each import each
from tests.phases.configs import KEMPNERFORGE, planned, set_keys, torchtitan

SPLITS = [("30", "200"), ("100", ""), ("", "1"), ("25%", "70%")]
KINDS = {
    "cosine": {},
    "linear": {"scheduler.min_lr_ratio": 0.0},
    "wsd": {"scheduler.stable_steps": 500, "scheduler.wsd_decay_type": '"sqrt"'},
    "constant": {},
    "rex": {"scheduler.rex_alpha": 0.5},
    "none": {},
}
TITAN = {
    "0.1.0": {"lr_scheduler.decay_ratio": 0.05},
    "0.2.0": {"lr_scheduler.decay_ratio": 0.05, "lr_scheduler.min_lr_factor": 0.1},
    "0.2.1": {"lr_scheduler.decay_ratio": 0.0},
    "0.2.2": {"lr_scheduler.decay_type": '"cosine"'},
}


def rates(known, text):
    """Each step's rate by a config's text, and the sequences that a rank has read."""
    loaded = known.load(tomllib.loads(text))
    job = known.job(loaded, trainer_target())
    rate = known.phases.learning_rates(loaded.values)
    rows = job["micro_batch"] * job["grad_accum"]
    return [(rate(step), step * rows) for step in range(1, job["max_steps"] + 1)]


def trainer_target():
    from fp8tune.job import Target

    return Target("h100-sxm", 8, "--gpu", "--world-size")


def joined(plan):
    """What the files of the phases give, one after the other; each resumes."""
    done = []
    for config in phase_configs(plan, ""):
        part = rates(plan.config.trainer, config.data.decode())
        assert len(part) == config.phase.end
        assert len(done) == config.phase.start
        done += part[config.phase.start :]
    return done


@each(("kind", "split"), [*itertools.product(KINDS, SPLITS)])
def test_kempnerforge_keeps_its_schedule(tmp_path, kind, split):
    text = KEMPNERFORGE.replace("[scheduler]\n", f'[scheduler]\nname = "{kind}"\n')
    text = set_keys(text, KINDS[kind])
    plan = planned(tmp_path, text, *split)
    assert joined(plan) == rates(plan.config.trainer, text)


@each(("version", "split"), [*itertools.product(TITAN, [("50", ""), ("30", "50")])])
def test_torchtitan_keeps_its_schedule(tmp_path, version, split):
    text = set_keys(torchtitan(version), TITAN[version])
    plan = planned(tmp_path, text, *split, trainer=f"torchtitan=={version}")
    assert joined(plan) == rates(plan.config.trainer, text)


def test_a_data_phase_scales_the_rates_of_all_phases(tmp_path):
    text = f"""{KEMPNERFORGE.replace('dataset_path = "/data/tokens"', "")}
[[data.datasets]]
path = "/data/a"
name = "a"
[[data.phases]]
start_step = 40
lr_scale = 0.5
"""
    plan = planned(tmp_path, text, "40", "200")
    assert joined(plan) == rates(plan.config.trainer, text)
    whole = plan.learning_rate()
    assert whole(41) / whole(42) > 1.9


def test_without_its_horizon_a_phase_would_have_another_schedule(tmp_path):
    plan = planned(tmp_path, KEMPNERFORGE, "300")
    first = next(phase_configs(plan, "")).data.decode()
    text = first.replace("decay_steps = 900\n", "")
    whole, cut = (rates(plan.config.trainer, t) for t in (KEMPNERFORGE, text))
    differ = [n for n, (a, b) in enumerate(zip(whole, cut, strict=False), 1) if a != b]
    assert differ[0] == 102
    assert cut[299][0] < whole[299][0] / 2


@each("version", ["0.1.0", "0.2.0", "0.2.1"])
def test_torchtitan_before_its_horizon_had_a_key_is_refused(tmp_path, version):
    with pytest.raises(CannotPlan, match=r"would be .* use 0\.2\.2") as refused:
        planned(
            tmp_path, torchtitan(version), "30", "", trainer=f"torchtitan=={version}"
        )
    assert f"the schedule of torchtitan {version} ends with" in str(refused.value)


def test_the_rates_are_those_of_the_papers_formulas():
    """By hand, at the corners; the benchmark compares with the trainers' own code."""
    known = trainer("kempnerforge")
    values = known.load({"train": {"max_steps": 100}, "optimizer": {"lr": 1.0}}).values
    rate = known.phases.learning_rates(values | {"scheduler.warmup_steps": 10})
    assert [rate(n) for n in (1, 6, 11, 56)] == [0.0, 0.5, 1.0, 0.55]
    values = trainer("torchtitan==0.2.2").load({"optimizer": {"lr": 1.0}}).values
    steps = {"training.steps": 100, "lr_scheduler.warmup_steps": 10}
    rate = trainer("torchtitan").phases.learning_rates(values | steps)
    assert [rate(n) for n in (1, 10, 11, 56)] == [0.1, 1.0, 1.0, 0.5]
