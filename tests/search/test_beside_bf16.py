"""What a search prints of FP8 beside bf16, in speed and in tokens per joule."""

import pytest

from tests.search.replayed import RECORDS, answered
from tests.search.tries import PRECISION


def test_bf16_that_is_faster_comes_first(replay):
    slow = [r._replace(tokens_per_second=r.tokens_per_second * 0.7) for r in RECORDS]
    records = [
        old if old.knobs[PRECISION] == "bf16" else new
        for old, new in zip(RECORDS, slow, strict=True)
    ]
    done = replay(records)
    closing = [line for line in done.out.splitlines() if "bf16 is faster" in line]
    assert len(closing) == 1
    assert closing[0].startswith(
        "bf16 is faster: FP8 does not pay here, it reaches 87.5 % ("
    )
    code, said = answered(replay, records)
    assert (code, said["knobs"][PRECISION], said["fp8_gain"]) == (0, "fp8", 0.875)
    code, said = answered(replay, records, "--allow", "precision")
    assert (code, said["knobs"][PRECISION], said["fp8_gain"]) == (0, "bf16", 0.875)


@pytest.mark.parametrize(
    ("bf16", "said"),
    [
        ((151.0,), "FP8 does not pay here: as fast as bf16, -0.7 % ("),
        ((147.0, 166.0), "FP8 may not pay here: it reaches 96.0 % ("),
    ],
)
def test_bf16_that_may_be_as_fast_is_said_first_too(replay, bf16, said):
    twins = [RECORDS[3]._replace(tokens_per_second=speed) for speed in bf16]
    records = [*RECORDS[:3], *twins, RECORDS[4]]
    closing = [line for line in replay(records).out.splitlines() if " pay here" in line]
    assert [line[: len(said)] for line in closing] == [said]


ENERGY = "--objective", "tokens-per-joule"


def powered(*watts):
    return [
        r._replace(tokens_per_joule=r.tokens_per_second / w, power_w=w)
        for r, w in zip(RECORDS, watts, strict=False)
    ]


def test_tokens_per_joule_as_the_objective(replay):
    records = powered(400.0, 400.0, 700.0, 600.0)
    done = replay(records, *ENERGY)
    assert [line.partition(" (")[0] for line in done.out.splitlines()[-7:-1]] == [
        "your config is already the best: 0.250 tokens/J",
        "next best: batch_size = 4: -14.3 %",
        "bf16 twin of your config 0.225 tokens/J",
        "bf16, batch_size = 4, 120 tokens/s",
        "beside that 100 tokens/s",
        "12 trials, 0 out of memory, 12 min",
    ]
    code, said = answered(replay, records, *ENERGY)
    assert (code, said["objective"]) == (0, "tokens-per-joule")
    assert said["tokens_per_joule"]["baseline"]["value"] == 0.25
    assert said["tokens_per_joule"]["fp8_gain"]["value"] == pytest.approx(1 / 0.9)
    assert "wrote a.tuned.toml" in replay(records).out.splitlines()


def test_bf16_that_is_more_efficient_comes_first(replay):
    """Whatever FP8 gains in tokens/s."""
    lines = replay(powered(400.0, 200.0, 500.0, 250.0), *ENERGY).out.splitlines()
    first = next(line for line in lines if "pay here" in line)
    told = lines[lines.index(first) : -2]
    assert [line.partition(" (")[0] for line in told] == [
        "bf16 is more efficient: FP8 does not pay here, it reaches 62.5 %",
        "more efficient: batch_size = 4",
        "0.250 tokens/J",
        "+20.0 %",
        "bf16 twin of this setting 0.480 tokens/J",
        "bf16 twin of this setting 120 tokens/s",
        "beside that 100 tokens/s",
        "13 trials, 0 out of memory, 13 min",
    ]
    assert first.endswith("of its tokens per joule")
    assert told[3].endswith(" tokens per joule, by 2 pairs of runs")
    assert "FP8 gains -37.5 % (" in told[4]
    assert "FP8 gains +25.0 % (" in told[5]
