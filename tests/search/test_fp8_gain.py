"""What a search finds of FP8 compared with bf16, in speed and in tokens per joule."""

import pytest

from tests.search.replayed import RECORDS, answered
from tests.search.tries import AC, BATCH, COMPILE, PRECISION, ran


def findings(said):
    """The findings on FP8, and on the answer, in their order."""
    return [(f["code"], f.get("objective")) for f in said["findings"]]


SPEED, ENERGY = "tokens-per-second", "tokens-per-joule"


def test_bf16_that_is_faster_comes_first(replay):
    slow = [r._replace(tokens_per_second=r.tokens_per_second * 0.7) for r in RECORDS]
    records = [
        old if old.knobs[PRECISION] == "bf16" else new
        for old, new in zip(RECORDS, slow, strict=True)
    ]
    code, said = answered(replay, records)
    assert findings(said)[0] == ("fp8-slower-than-bf16", SPEED)
    assert (code, said["knobs"][PRECISION], said["fp8_gain"]) == (0, "fp8", 0.875)
    code, said = answered(replay, records, "--allow", "precision")
    assert (code, said["knobs"][PRECISION], said["fp8_gain"]) == (0, "bf16", 0.875)
    assert findings(said)[:2] == [("fp8-slower-than-bf16", SPEED), ("faster", SPEED)]
    speeds = said["tokens_per_second"]
    assert speeds["bf16_baseline"] == speeds["chosen"]


@pytest.mark.parametrize(
    ("bf16", "code"),
    [((151.0,), "fp8-as-fast-as-bf16"), ((147.0, 166.0), "fp8-inconclusive")],
)
def test_bf16_that_is_as_fast_or_may_be(replay, bf16, code):
    in_bf16 = [RECORDS[3]._replace(tokens_per_second=speed) for speed in bf16]
    _, said = answered(replay, [*RECORDS[:3], *in_bf16, RECORDS[4]])
    assert (code, SPEED) in findings(said)


def test_bf16_that_is_more_efficient_comes_first(replay):
    """Whatever FP8 gains in tokens/s."""
    watts = zip(RECORDS, (400.0, 200.0, 500.0, 250.0), strict=False)
    records = [
        r._replace(tokens_per_joule=r.tokens_per_second / w, power_w=w)
        for r, w in watts
    ]
    _, said = answered(replay, records, "--objective", ENERGY)
    assert findings(said) == [
        ("fp8-slower-than-bf16", ENERGY),
        ("faster", ENERGY),
        ("fp8-faster-than-bf16", SPEED),
        ("other-objective", SPEED),
    ]
    gains = [f["gain"]["value"] for f in said["findings"][:3]]
    assert gains == pytest.approx([0.625, 1.2, 1.25])


@pytest.mark.parametrize(
    ("allow", "gain", "differs", "speed"),
    [
        ((), 15 / 12.5, {BATCH: 2}, "12,500 with batch_size = 2"),
        (
            ("--allow", "precision"),
            15 / 13.5,
            {BATCH: 2, AC: "full"},
            "13,500 with batch_size = 2, activation_checkpointing = full",
        ),
    ],
)
def test_fp8_is_compared_with_the_fastest_bf16_that_ran(
    replay, allow, gain, differs, speed
):
    """Which is named where it is not the chosen setting in bf16."""
    fp8 = {(1, 1): 10_000, (2, 1): 11_000, (1, 0): 14_000, (2, 0): 15_000}
    bf16 = {(1, 1): 13_500, (2, 1): 9_000, (1, 0): 12_500, (2, 0): 12_000}
    _, said = answered(
        replay,
        [
            ran((batch, ac, 1, precision), rate)
            for precision, rates in ((1, fp8), (0, bf16))
            for (batch, ac), rate in rates.items()
        ],
        *allow,
    )
    finding = next(f for f in said["findings"] if f["code"] == "fp8-faster-than-bf16")
    chosen = {BATCH: 4, AC: "none", COMPILE: True, PRECISION: "fp8"}
    assert said["knobs"] == said["fp8_gain_of"]["fp8"] == chosen
    assert said["fp8_gain_of"]["bf16"] == {**chosen, PRECISION: "bf16", **differs}
    assert said["fp8_gain"] == finding["gain"]["value"] == pytest.approx(gain)
    assert finding["bf16_differs"] == differs
    assert finding["message"].endswith(f", bf16 reaches {speed}")
