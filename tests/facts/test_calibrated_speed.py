"""Measured speeds that correct estimates, and what they say of FP8's gain."""

import pytest

from fp8tune.facts import calibration
from fp8tune.facts.runs import of_job


def in_both(config, **ratios):
    """Runs of a config in precisions, so many times as fast as is predicted."""
    return [
        run
        for precision, ratio in ratios.items()
        for one in [config(precision=precision)]
        for run in of_job(one, 0.0, ratio * one["speed.tokens_per_second"])
    ]


@pytest.mark.parametrize("other", [{"ac": "none"}, {"precision": "bf16"}])
def test_the_speed_of_other_families_goes_along(config, other):
    """Else what was measured would look slow beside what was not."""
    one, beside = config(precision="fp8"), config(**{"precision": "fp8"} | other)
    runs = of_job(one, 0.0, 0.8 * one["speed.tokens_per_second"])
    found, names = calibration.speed(beside, runs), ("per_second", "low", "high")
    wanted = [0.8 * beside[f"speed.tokens_{name}"] for name in names]
    assert list(found[:3]) == pytest.approx(wanted)
    assert (found.factor, found.beside) == (pytest.approx(0.8), 1)
    assert calibration.speed(config(**other, gpu="h100-sxm"), runs).factor == 1.0


SPEEDS = ((0.9, 0.6, "no"), (0.9, 0.9, "yes"))


@pytest.mark.parametrize(("bf16", "fp8", "pays"), SPEEDS)
def test_runs_in_both_precisions_say_whether_fp8_pays(config, bf16, fp8, pays):
    both = {"bf16": bf16, "fp8": fp8}
    runs = in_both(config, **both)
    for precision in both:
        one = config(precision=precision)
        assert calibration.gain(one, runs[:1]) is None
        gain = calibration.gain(one, runs)
        assert (gain.runs, gain.factor) == (2, pytest.approx(fp8 / bf16))
        after = one.with_values(gain.facts)
        assert str(after["fp8.pays"]) == pays
        gained = one["speed.fp8_gain"] * fp8 / bf16
        assert after["speed.fp8_gain"] == pytest.approx(gained)
    one, other = (
        run._replace(versions=run.versions | {"torch": torch})
        for run, torch in zip(runs, ("2.9", "2.11"), strict=True)
    )
    assert calibration.gain(config(), [one, other]) is None
    assert calibration.gain(config(), [runs[0], other]).runs == 2


@pytest.mark.parametrize(("fp8", "pays"), [(0.6, "marginal"), (1.1, "yes")])
def test_runs_of_other_configs_leave_an_end_of_the_gains_band(config, fp8, pays):
    """Another shape may gain as before, and no more than its linears."""
    runs = in_both(config, bf16=0.9, fp8=fp8)
    other = config(precision="fp8").with_values({"micro_batch": 2})
    gain = calibration.gain(other, runs)
    low, value, high = (other[f"speed.fp8_gain{end}"] for end in ("_low", "", "_high"))
    found, least, most = gain.facts.values()
    assert (least <= low, high <= most) == (True, True)
    assert found == min(value * fp8 / 0.9, other["fp8.linear_gain_high"])
    assert str(other.with_values(gain.facts)["fp8.pays"]) == pays


def test_what_a_config_itself_gained_counts_alone(config):
    """Whatever its family did, and wherever its checkpoints lie."""
    runs = in_both(config, bf16=0.9, fp8=1.1)
    for precision, ratio in {"bf16": 1.0, "fp8": 0.7}.items():
        one = config(precision=precision).with_values({"micro_batch": 2})
        one = one.with_values({"checkpoint.dir": precision})
        runs += of_job(one, 0.0, ratio * one["speed.tokens_per_second"])
    mine = config(precision="fp8").with_values({"micro_batch": 2})
    gain = calibration.gain(mine, runs)
    assert (gain.runs, gain.factor) == (2, pytest.approx(0.7))
    assert str(mine.with_values(gain.facts)["fp8.pays"]) == "no"
    assert calibration.gain(config(precision="fp8"), runs).factor == pytest.approx(
        1.1 / 0.9
    )
