"""Records: what a line may say, and what it must not."""

import json

import pytest

from fp8tune.trials.record import OUTCOMES, BadRecord, Record, parse, parse_all
from tests.search.tries import but

KNOBS = {"train.batch_size": 8, "train.compile_model": True}
OK = {
    "knobs": KNOBS,
    "outcome": "ok",
    "tokens_per_second": 10471.0,
    "step_ms": [3130.1, 3129.4],
    "peak_gib": 80.7,
    "reserved_gib": 88.2,
    "cost_s": 96.0,
    "gpu": {"name": "H200"},
}


def test_a_whole_record_comes_back_as_it_was_written():
    record = parse(json.dumps(OK))
    assert record == Record(
        KNOBS,
        "ok",
        10471.0,
        (3130.1, 3129.4),
        80.7,
        88.2,
        96.0,
        extra={"gpu": OK["gpu"]},
    )
    assert json.loads(record.line()) == OK
    assert parse(record.line()) == record


NULL = dict.fromkeys(
    ("tokens_per_second", "step_ms", "peak_gib", "reserved_gib", "cost_s")
)


@pytest.mark.parametrize("figures", [{}, NULL])
@pytest.mark.parametrize("outcome", [name for name in OUTCOMES if name != "ok"])
def test_what_failed_needs_nothing_but_its_outcome(outcome, figures):
    record = parse(json.dumps({"knobs": {}, "outcome": outcome} | figures))
    assert record == but(Record({}, outcome))
    assert not record.ok


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"knobs": None}, "`knobs`"),
        ({"knobs": {"a": None}}, "`knobs`"),
        ({"knobs": {"a": [1]}}, "`knobs`"),
        ({"knobs": {"a": float("nan")}}, "`knobs`"),
        ({"knobs": {"a": 1 << 64}}, "`knobs`"),
        ({"outcome": "slow"}, "`outcome` is one of ok, oom"),
        ({"outcome": None}, "`outcome`"),
        ({"tokens_per_second": 0}, "an ok trial has `tokens_per_second`"),
        ({"tokens_per_second": None}, "`tokens_per_second` is a number"),
        ({"tokens_per_second": True}, "`tokens_per_second` is a number"),
        ({"tokens_per_second": float("inf")}, "`tokens_per_second` is a number"),
        ({"cost_s": -1}, "`cost_s` is a number of at least 0"),
        ({"cost_s": 10**400}, "`cost_s` is a number"),
        ({"cost_s": "96"}, "`cost_s`"),
        ({"step_ms": 3}, "`step_ms` is an array"),
        ({"step_ms": ["3"]}, "`step_ms` is a number"),
    ],
)
def test_what_is_no_record(change, said):
    with pytest.raises(BadRecord, match=said):
        parse(json.dumps(OK | change))


@pytest.mark.parametrize("line", ["", "{", "[]", "1", "nul", "[" * 100_000])
def test_what_is_no_json_object(line):
    with pytest.raises(BadRecord, match="JSON"):
        parse(line)


def test_a_line_has_a_limit():
    with pytest.raises(BadRecord, match="more than 1 MiB"):
        parse(" " * (1 << 21))


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999"])
def test_a_free_field_that_is_no_number_can_be_written_again(text):
    line = json.dumps({"knobs": {}, "outcome": "nan"})[:-1] + f', "loss": {text}}}'
    assert json.loads(parse(line).line())["loss"] is None


def test_lines_are_counted_and_empty_ones_passed_over():
    good = json.dumps(OK)
    assert [r.knobs for r in parse_all(iter([good, "", " ", good]))] == [KNOBS] * 2
    with pytest.raises(BadRecord, match="line 3: no JSON"):
        list(parse_all(iter([good, "", "{"])))
