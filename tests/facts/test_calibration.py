"""Measured runs that correct estimates."""

import pytest

from fp8tune.facts import calibration
from fp8tune.facts.calibration import Band
from fp8tune.facts.memory.verdict import CALIBRATED
from fp8tune.facts.runs import BadCalibration, of_job
from fp8tune.job import Unknown
from tests.facts.calibrated import CONFIG, FULL
from tests.sample import DEFAULT_8B

BAND = Band(50.0, 40.0, 60.0)


def test_two_runs_correct_other_configs_of_their_family(config):
    before = config()
    runs = [
        run
        for gpus in (8, 32)
        for one in [config(world_size=gpus)]
        for run in of_job(
            one, 1.04 * one["memory.peak_gib"], 0.9 * one["speed.tokens_per_second"]
        )
    ]
    memory, speed = calibration.memory(before, runs), calibration.speed(before, runs)
    assert (memory.runs, speed.runs) == (2, 2)
    assert memory.value == pytest.approx(1.04 * before["memory.peak_gib"], rel=1e-3)
    assert speed.value == pytest.approx(0.9 * before["speed.tokens_per_second"])
    width = memory.high / memory.low - 1
    assert width == pytest.approx(0.04, abs=1e-3)  # no published one is so far off
    old = before["speed.tokens_high"] - before["speed.tokens_low"]
    assert speed.high - speed.low < old


@pytest.mark.parametrize(
    "other", [{"ac": "none"}, {"gpu": "h100-sxm"}, {"precision": "fp16"}, {"dim": 512}]
)
def test_other_families_and_gpus_are_left_alone(config, other):
    one = config()
    runs = of_job(one, 2 * one["memory.peak_gib"])
    found = calibration.memory(config(**other), runs)
    assert (found.value, found.runs) == (config(**other)["memory.peak_gib"], 0)


@pytest.mark.parametrize(
    ("precision", "ac", "goes_along"),
    [("fp8", "full", True), ("fp8", "none", False), ("bf16", "none", False)],
)
def test_the_memory_of_fp8_goes_along_and_bands_of_others_hold_the_factor(
    config, precision, ac, goes_along
):
    one, beside = config(), config(precision=precision, ac=ac)
    runs = of_job(one, 1.2 * one["memory.peak_gib"])
    found = calibration.memory(beside, runs)
    low, peak, high = (beside[f"memory.{n}_gib"] for n in ("low", "peak", "high"))
    if goes_along:
        assert (found.runs, found.value) == (1, pytest.approx(1.2 * peak, rel=2e-3))
    else:
        assert found == Band(peak, low, pytest.approx(1.2 * high), beside=1)


def test_fp8_and_bf16_leave_each_other_no_less_than_their_pairs_differ(config):
    one = config()
    runs = of_job(one, one["memory.peak_gib"])
    own, other = (
        calibration.memory(config(precision=precision), runs)
        for precision in ("bf16", "fp8")
    )
    assert own.high / own.value == pytest.approx(1 + CALIBRATED["dense, bf16"][0])
    assert other.high / other.value == pytest.approx(1.02)


@pytest.mark.parametrize(
    ("model", "others"),
    [
        ("dim = 4096\nn_heads = 32", 1),
        ("dim = 512\nn_heads = 8", 0),
        ("dim = 1024\nn_heads = 8\nn_layers = 2", 0),
    ],
)
def test_runs_of_another_size_widen_no_band(job, config, model, others):
    text = f"[model]\n{model}\n[train]\nactivation_checkpointing = 'none'\n"
    one = job(text, gpu="h200", world_size=16)
    runs = of_job(one, 1.2 * one["memory.peak_gib"])
    assert calibration.memory(config(), runs).beside == others


def test_only_the_newest_environment_counts(config):
    one = config()
    peak = one["memory.peak_gib"]
    runs = [
        run
        for torch, ratio in (("2.11", 1.5), ("2.13", 1.1))
        for run in of_job(one, ratio * peak, versions={"torch": torch})
    ]
    assert calibration.memory(one, runs).value == pytest.approx(1.1 * peak, rel=1e-3)
    old = [run._replace(versions={"fp8tune": "0"}) for run in runs]
    assert calibration.memory(one, old).value == peak


def test_what_building_needs_is_exact(job):
    text = "[model]\nnum_experts = 128\n[train]\nbatch_size = 1\nseq_len = 128\n"
    text += "compile_model = false\n[distributed]\nep = 8\n"
    built = job(text, gpu="h200", world_size=8)
    assert str(built["memory.peak_at"]) == "init"
    with pytest.raises(BadCalibration, match="while the model is built"):
        of_job(built, built["memory.peak_gib"])
    with pytest.raises(BadCalibration, match="while the model is built"):
        of_job(built, ran_out=True)


def test_a_peak_that_may_be_of_the_building_corrects_nothing(config):
    """Where the steps are predicted to need hardly more than building did."""
    one = config(world_size=64)
    one = one.with_values({"micro_batch": 3, "grad_accum": 1})
    built = one["memory.init_gib"]
    assert built < one["memory.peak_gib"] < 1.05 * built
    for peak in (0.97 * built, built, 1.004 * built):
        with pytest.raises(BadCalibration, match="while the model is built"):
            of_job(one, peak)
    assert of_job(one, 1.01 * built)


EXPERTS = {"ac": "full", "precision": "bf16", "batch": 1}


@pytest.fixture
def experts(job):
    def build(**values):
        text = (
            "[model]\ndim = 2048\nn_heads = 16\nnum_experts = 8\n[train]\nseq_len"
            " = 4096\ncompile_model = false\nactivation_checkpointing = '{ac}'\n"
            "mixed_precision = '{precision}'\nbatch_size = {batch}\n"
        )
        return job(text.format(**EXPERTS | values), gpu="h200", world_size=8)

    return build


def test_experts_kept_without_full_ac_are_a_family_of_their_own(experts):
    kept, full = experts(ac="none"), experts()
    runs = of_job(kept, 0.7 * kept["memory.peak_gib"])
    assert calibration.memory(full, runs).runs == 0
    assert calibration.memory(kept, runs).runs == 1


@pytest.mark.parametrize("ratio", [0.85, 0.99])
def test_the_band_of_other_experts_stays(experts, ratio):
    one, other = experts(), experts(batch=2)
    runs = of_job(one, ratio * one["memory.peak_gib"])
    found = calibration.memory(other, runs)
    assert found.high >= other["memory.high_gib"]
    assert found.low <= other["memory.low_gib"]
    again = calibration.memory(one, runs)
    assert again.high < 1.04 * again.value


def test_experts_that_are_routed_otherwise_keep_what_routing_needs(job):
    """All predict the same while routing has collapsed; balanced ones need more."""
    text = "[model]\ndim = 2048\nn_layers = 24\nn_heads = 16\nn_kv_heads = 4\n"
    text += "vocab_size = 128256\nnum_experts = 8\nmoe_packed_experts = true\nmoe_top_k"
    text += " = {}\n[train]\nbatch_size = 8\nseq_len = 4096\nmixed_precision = 'bf16'"
    text += "\nactivation_checkpointing = 'full'\ncompile_model = false\n"
    one, other = (job(text.format(n), gpu="h200", world_size=8) for n in (1, 8))
    assert one["memory.peak_gib"] == other["memory.peak_gib"]
    runs = of_job(one, one["memory.low_gib"])
    found = calibration.memory(other, runs)
    assert found.value >= other["memory.low_gib"] > one["memory.low_gib"]
    assert found.high >= other["memory.high_gib"]


def test_state_is_not_corrected_by_what_activations_were_off_by(job):
    """A peak without activations stays, nearly, where one with many was 7 % less."""
    text = f"{DEFAULT_8B}[train]\nmixed_precision = 'bf16'\nbatch_size = 1\nseq_len = "
    one, state = (
        job(f"{text}{size}\n", gpu="h200", world_size=2) for size in (4096, 256)
    )
    assert one["memory.exact_gib"] < 0.7 * one["memory.peak_gib"]
    assert state["memory.exact_gib"] > 0.95 * state["memory.peak_gib"]
    runs = of_job(one, 0.93 * one["memory.peak_gib"])
    found = calibration.memory(state, runs)
    assert found.runs == 1
    assert found.value > 0.99 * state["memory.peak_gib"]


def test_a_well_balanced_mixture_may_have_far_less_than_is_predicted(job):
    many = "num_experts = 8\nmoe_top_k = 1\n"
    text = f"[model]\ndim = 2048\nn_heads = 16\n{many}[train]\nbatch_size = 4\n"
    text += "seq_len = 4096\ncompile_model = false\n"
    kept, dense = (
        job(each, gpu="h200", world_size=8) for each in (text, text.replace(many, ""))
    )
    low = kept["memory.low_gib"]
    assert low < kept["memory.peak_gib"] / 3
    (run,) = of_job(kept, low)
    assert run.measured == low
    with pytest.raises(BadCalibration, match="too far from the estimate"):
        of_job(dense, dense["memory.peak_gib"] / 3.1)


def test_the_verdict_follows_the_correction(config):
    one = config()
    assert calibration.memory_fit(one, calibration.memory(one, [])) == "fits"
    runs = of_job(one, 2.5 * one["memory.peak_gib"])
    found = calibration.memory(one, runs)
    assert calibration.memory_fit(one, found) == "out-of-memory"


def without_spare(job):
    """The job whose compiled blocks keep nothing that they need not keep."""
    each = job["activation_bytes"] - job["spare_bytes"] / job["layers"]
    return job.with_values({"activation_bytes": each})


def test_logits_are_arithmetic_too(job):
    """What a run's activations are off by is not laid on another's logits."""
    text = f"{CONFIG.format(**FULL | {'precision': 'fp8', 'ac': 'none'})}"
    sizes = {"batch_size = 8": "batch_size = 2", "steps = 4": "steps = 1"}
    for old, new in sizes.items():
        assert old in text
        text = text.replace(old, new)
    one = job(text, gpu="h100", world_size=8)
    other = one.with_values({"layers": 16, "micro_batch": 5, "grad_accum": 4})
    true = [without_spare(each)["memory.peak_gib"] for each in (one, other)]
    found = calibration.memory(other, of_job(one, true[0]))
    assert found.low <= true[1] <= found.high


@pytest.mark.parametrize("ratio", [0.3, 3.1])
def test_what_is_far_off_is_not_stored(config, ratio):
    one = config()
    with pytest.raises(BadCalibration, match="too far from the estimate"):
        of_job(one, ratio * one["memory.peak_gib"])


def test_what_is_not_covered_cannot_be_stored(job):
    with pytest.raises(Unknown):
        of_job(job(CONFIG.format(**FULL)), 50.0)


def test_a_run_of_another_size_of_memory_says_nothing(config):
    one = config()
    peak = one["memory.peak_gib"]
    for times, count in ((7.9, 1), (8.1, 0)):
        (run,) = of_job(one, 1.1 * peak)
        for far in (times * peak, peak / times):
            moved = run._replace(predicted=far, measured=1.1 * far)
            assert calibration.memory(one, [moved]).runs == count


def test_what_ran_out_is_never_said_to_fit(config):
    one = config()
    assert one["memory.fit"] == "fits"
    (run,) = of_job(one, ran_out=True)
    found = calibration.memory(one, [run])
    assert calibration.memory_fit(one, found) == "may-not-fit"
    assert (found.value, found.runs) == (one["memory.peak_gib"], 0)
    assert found.high == pytest.approx(one["gpu.memory_gib"])
