"""Does FP8 follow bf16? On recorded runs, and where the truth is known."""

import math
from itertools import permutations

import pytest

from fp8tune.verify.alignment import align
from fp8tune.verify.evidence import Curve
from fp8tune.verify.gap import Verdict, compare, speed_ratio
from fp8tune.verify.gap_findings import findings
from fp8tune.verify.gap_output import as_json
from fp8tune.verify.runs import Run
from tests.each import each
from tests.support.curves import runs, worse


@pytest.fixture(scope="module")
def recorded():
    return runs()


def run(losses, tokens=1000.0, first=1, every=1, **fields):
    """A run with a loss for each logged step."""
    curve = Curve()
    for n, loss in enumerate(losses):
        curve.add(step=first + every * n, loss=loss, grad_norm=1.0)
    return Run("run", "", [], curve, tokens_per_step=tokens, **fields)


def falling(count, gap=0.0, start=0):
    """Losses that fall by a power law."""
    return [1.5 + 6 * (n + 5) ** -0.4 + gap for n in range(start, start + count)]


def codes(result):
    return [one.code for one in findings(result)]


@pytest.mark.parametrize("data", ["same", "own"])
def test_no_seed_of_bf16_is_called_worse_than_another(recorded, data):
    verdicts = {
        compare([one], [other]).verdict
        for one, other in permutations(recorded["bf16", data, ""], 2)
    }
    assert verdicts <= {Verdict.SAME, Verdict.INCONCLUSIVE}


@each(
    ("data", "fault", "verdicts"),
    [
        ("same", "", {Verdict.SAME, Verdict.INCONCLUSIVE}),
        ("own", "", {Verdict.SAME, Verdict.INCONCLUSIVE}),
        ("same", "underflow", {Verdict.WORSE}),
        ("same", "saturated", {Verdict.DIVERGED}),
        ("same", "overflow", {Verdict.DIVERGED}),
    ],
)
def test_fp8_and_broken_fp8(recorded, data, fault, verdicts):
    bf16 = recorded["bf16", data, ""]
    found = set()
    for fp8 in recorded["fp8", data, fault]:
        for others in ([bf16[4]], bf16[:4], bf16):
            result = compare([fp8], others)
            found.add(result.verdict)
            assert as_json(result)["verdict"] == result.verdict
    assert found <= verdicts


def test_fp8_as_good_as_a_seed_is_the_same_for_many_seeds(recorded):
    fp8, bf16 = recorded["fp8", "same", ""], recorded["bf16", "same", ""]
    verdicts = [compare([one], bf16).verdict for one in fp8]
    assert verdicts == [Verdict.SAME] * len(fp8)
    assert compare(fp8, bf16).verdict == Verdict.SAME


def test_whether_the_data_is_the_same_is_seen(recorded):
    same, own = (recorded["bf16", data, ""] for data in ("same", "own"))
    assert align(same[:5]).same_data is True
    assert align(own[:5]).same_data is False
    assert align([same[0], *own[:2]]).same_data is False
    flat = run([2.0] * 100)
    assert align([flat, flat]).same_data is None


def test_a_known_spread_of_seeds_decides(recorded):
    bf16 = recorded["bf16", "same", ""][:1]
    fp8 = [worse(bf16[0], 0.015)]
    assert compare(fp8, bf16).reason == "seeds"
    assert compare(fp8, bf16, 0.001).verdict == Verdict.WORSE
    assert compare(bf16, fp8, 0.001).verdict == Verdict.BETTER


def test_more_tokens_a_second_became_less_time():
    """Nanochat: 17 % more tokens/s, 5 % less time (its LOG.md of 2026-02-02)."""
    count = 400
    bf16 = [run(falling(count), tokens_per_second=1000.0) for _ in range(3)]
    slower = [1.5 + 6 * ((n + 5) / 1.11) ** -0.4 for n in range(count)]
    fp8 = run(slower, tokens_per_second=1170.0)
    result = compare([fp8], bf16)
    assert result.equal.tokens.value == pytest.approx(1.11, rel=0.02)
    assert result.equal.time.value == pytest.approx(0.95, rel=0.02)
    (finding,) = (f for f in findings(result) if f.code == "time-to-equal-loss")
    assert finding.message.startswith("17.0 % more tokens/s became ")
    assert " % less time to equal loss (" in finding.message


@each(
    ("fp8", "bf16", "verdict", "reason"),
    [
        (falling(400), falling(400), Verdict.INCONCLUSIVE, "seeds"),
        (falling(400, 0.5), falling(400), Verdict.WORSE, "gap"),
        (falling(400, -0.5), falling(400), Verdict.BETTER, "gap"),
        (falling(40), falling(40), Verdict.INCONCLUSIVE, "few-steps"),
        ([math.nan] * 9, falling(40), Verdict.DIVERGED, "nan"),
        (
            [*falling(90), math.nan, *falling(309, start=91)],
            falling(400),
            Verdict.INCONCLUSIVE,
            "seeds",
        ),
        (falling(90), [*falling(90), math.nan], Verdict.INCONCLUSIVE, "bf16-diverged"),
    ],
    ids=lambda case: f"{case[2]} {case[3]} {len(case[0])}",
)
def test_verdicts(fp8, bf16, verdict, reason):
    result = compare([run(fp8)], [run(bf16)])
    assert (result.verdict, result.reason) == (verdict, reason)
    assert as_json(result)["findings"][0]["code"] == verdict


def test_a_seed_of_bf16_that_climbs_does_not_hide_a_gap():
    climbs = [
        loss + max(0, n - 200) / 100 for n, loss in enumerate(falling(400, 0.001))
    ]
    seeds = [run(falling(400)), run(climbs), run(falling(400, 0.002))]
    result = compare([run(falling(400))], seeds)
    assert (result.verdict, result.reason) == (Verdict.INCONCLUSIVE, "bf16-diverged")
    assert result.diverged_bf16 == (seeds[1],)
    assert next(findings(result)).message == (
        "Inconclusive: bf16 diverged (run). Compare without it."
    )


def test_nan_from_the_first_step_on():
    result = compare([run([math.nan] * 9, first=3)], [run(falling(40))])
    assert result.diverged_at == 3000
    assert "from step 3 (3,000 tokens) on" in next(findings(result)).message


def test_other_batches_are_aligned_by_tokens():
    halves = run(falling(400), 500.0)
    wholes = run(falling(400)[1::2], 1000.0)
    result = compare([halves], [wholes], seed_spread=0.002)
    assert result.aligned.unit == "tokens"
    assert result.aligned.other_batch
    assert "other-batch" in codes(result)
    assert result.verdict == Verdict.SAME


def test_runs_that_log_other_steps():
    odd = run(falling(400)[::2], first=1, every=2)
    even = run(falling(400)[1::2], first=2, every=2)
    result = compare([odd], [even])
    assert result.aligned.same_data is None
    assert abs(result.gap.total.value) < 0.002


def test_runs_without_common_steps():
    result = compare([run(falling(50))], [run(falling(50), first=1000)])
    assert (result.verdict, result.reason) == (Verdict.INCONCLUSIVE, "no-overlap")
    assert as_json(result)["loss"] is None


@each(
    ("fp8", "bf16", "ratio"),
    [
        ({"tokens_per_second": 3.0}, {"tokens_per_second": 2.0}, 1.5),
        ({"step_s": 1.0}, {"step_s": 2.0}, 2.0),
        ({"step_s": 1.0}, {"tokens_per_second": 500.0}, 2.0),
        ({"tokens_per_second": 3.0, "per_gpu": True}, {"tokens_per_second": 2.0}, None),
        ({"tokens_per_second": 3.0}, {}, None),
    ],
)
def test_speeds(fp8, bf16, ratio):
    assert speed_ratio([run([1.0], **fp8)], [run([1.0], **bf16)]) == ratio


def test_gradient_spikes_of_fp8():
    fp8, bf16 = run(falling(400)), run(falling(400))
    for n in range(20, 400, 20):
        fp8.curve.grad_norm[n] = 50.0
    result = compare([fp8], [bf16])
    assert result.norms.spikes == (19, 0)
    assert "more-spikes" in codes(result)
