"""Records: what a line may say, and what it must not."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from fp8tune.trials.record import (
    OUTCOMES,
    BadRecord,
    Discarded,
    LossRun,
    OtherProcess,
    Record,
    parse,
    parse_all,
)
from fp8tune.trials.trial import STAGES, Trial, parse_trial
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


PAGE = (Path(__file__).parents[2] / "docs/records.md").read_text(encoding="utf-8")
TYPES = {
    dict[str, Any]: "object",
    LossRun | None: "object",
    Mapping[str, str]: "object of strings",
    tuple[float, ...]: "array of numbers",
    tuple[OtherProcess, ...]: "array of objects",
    tuple[Discarded, ...]: "array of objects",
    **dict.fromkeys((str,), "string"),
    **dict.fromkeys((float, float | None), "number"),
    **dict.fromkeys((int, int | None), "integer"),
    **dict.fromkeys((bool, bool | None), "true or false"),
}
"""What the page calls the types of fields."""


def table(columns):
    """The rows of the page's tables with so many columns, without their heads."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    rows = [(name, *cells.split(" | ")) for name, cells in rows]
    return [row for row in rows if len(row) == columns]


def test_the_page_has_each_field_of_a_record_and_of_its_place_in_a_study():
    known = get_type_hints(Record) | get_type_hints(Trial)
    names = [*Record._fields, "trial", *Trial._fields]
    for name in ("extra", "number", "position", "record"):
        names.remove(name)
    known["trial"] = known["number"]
    rows = table(4)
    fields = [(name, kind) for name, kind, _, _ in rows]
    assert fields == [(name, TYPES[known[name]]) for name in names]
    parts = {name: re.findall("`(.*?)`", holds) for name, _, _, holds in rows}
    assert parts["stage"] == list(STAGES)
    assert parts["others"] == list(OtherProcess._fields)
    assert parts["discarded"] == list(Discarded._fields)
    assert parts["loss_run"] == list(LossRun._fields)
    assert [name for name, _ in table(2)] == list(OUTCOMES)


def test_what_may_be_absent_is_what_the_page_says():
    def needs(name, outcome):
        fields = {**OK, "outcome": outcome}
        fields.pop(name, None)
        try:
            parse_trial(0, json.dumps(fields))
        except BadRecord:
            return True
        return False

    words = {(True, True): "no", (True, False): "if not `ok`", (False, False): "yes"}
    for name, _, absent, _ in table(4):
        assert absent == words[needs(name, "ok"), needs(name, "oom")], name


def test_the_examples_of_the_page_are_records():
    """The last one is a line that a real search exported, and comes back whole."""
    blocks = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    trials = [parse_trial(0, line) for line in lines]
    assert [trial.record.outcome for trial in trials] == ["ok", "oom", "ok"]
    assert json.dumps(trials[-1].data()) == lines[-1]
    assert trials[-1].stage == "baseline"
