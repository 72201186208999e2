"""Compare two configs: values, memory, speed, learning, findings of lint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.estimate.grid import Variants
from fp8tune.estimate.predict import Prediction
from fp8tune.estimate.target import assumed, by_world_size, titled
from fp8tune.facts.calibration import Band
from fp8tune.facts.runs import Run
from fp8tune.formats import ABOUT_SCRIPT
from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.words import aligned, column_widths, plain, shown, wrapped

TENTHS = 1000
"""Predictions below this have one decimal."""
NAMES = 32
"""Columns of a name or a value at most; a longer name has a line of its own."""
ABSENT = "-"
"""What stands for a value that a side does not have."""


class Side(NamedTuple):
    """One of the two configs, with its prediction and its findings."""

    config: Config
    variants: Variants
    predicted: Prediction
    findings: Sequence[Diagnostic]


class Row(NamedTuple):
    """One line of the comparison: what it is about, and its value on each side."""

    name: str
    first: Any
    second: Any


def side(
    config: Config, findings: Sequence[Diagnostic] = (), runs: Sequence[Run] = ()
) -> Side:
    """Predict one config, on the GPUs that it names or on an assumed number.

    ``runs`` are measured runs that correct the prediction.
    """
    variants = Variants(config, runs)
    if not variants.target.world_size:
        sizes = by_world_size(variants)
        variants = assumed(variants, sizes, titled(config))
    return Side(config, variants, variants.predict({}), findings)


FIELDS = (
    *("precision", "micro_batch", "seq_len", "grad_accum", "max_steps"),
    *("warmup_steps", "learning_rate", "schedule", "optimizer", "betas", "eps"),
    *("weight_decay", "clip_norm", "ac_applied", "compile", "hidden_size", "layers"),
    *("heads", "kv_heads", "head_dim", "ffn_size", "vocab_size", "max_seq_len"),
    *("tied_embeddings", "activation", "rope_theta", "norm_eps", "qk_norm", "experts"),
    *("tp", "pp", "cp", "ep", "dp_replicate", "shards", "sequence_parallel"),
    *("fp8_recipe", "te_recipe", "fp8_all_gather", "fp8_converts_head"),
    *("compute_bytes", "weight_bytes", "optimizer_bytes", "checkpoint_interval"),
)
"""The fields in which configs of two trainers are compared."""


def keys(first: Side, second: Side) -> Iterator[Row]:
    """Yield every config key whose value differs; ``None`` stands for no value.

    A key that only one trainer or release has is left out unless its file sets it. Of
    two trainers the fields are compared first, and then the keys behind no field.
    """
    sides = (first, second)
    across = first.config.trainer.name != second.config.trainer.name
    fields = list(_fields(first, second)) if across else []
    yield from (row for row in fields if _plain_text(row[1]) != _plain_text(row[2]))
    a, b = (_without(fields, one) for one in sides)
    for name in sorted({*a, *b}):
        row = Row(name, a.get(name), b.get(name))
        there = [one for one, its in zip(sides, (a, b), strict=True) if name in its]
        is_set = any(_sets(one, name) for one in there)
        differs = row.first != row.second or type(row.first) is not type(row.second)
        if differs and (is_set or (len(there) == 2 and not across)):
            yield row


def _fields(first: Side, second: Side) -> Iterator[Row]:
    """Yield the fields that are known on both sides."""
    for name in FIELDS:
        values = [one.variants.job.find(name) for one in (first, second)]
        if None not in values:
            yield Row(name, *values)


def _plain_text(value: Any) -> str:
    """Return a value as text in which trainers spell alike."""
    return str(list(value) if isinstance(value, tuple) else value).casefold()


def _without(fields: Sequence[Row], side: Side) -> dict[str, Any]:
    """Return the values of the keys on which none of the fields depends."""
    words = side.variants.job.words
    behind = {key for row in fields for key in words.origins(row.name)}
    return {key: value for key, value in _values(side).items() if key not in behind}


def _sets(side: Side, name: str) -> bool:
    """Return whether a config sets a key."""
    loaded = side.variants.loaded
    return name in loaded.written or name not in loaded.values


def _values(one: Side) -> dict[str, Any]:
    """Return the values of a job, with those of the file that the job does not need."""
    known = one.variants.loaded.values
    said = dict(_leaves(one.config.document.values, ""))
    more = {name: v for name, v in said.items() if name.replace("-", "_") not in known}
    script = one.config.document.format == "bash"
    of_script = {*ABOUT_SCRIPT} - {"environment"} if script else set()
    every = {**more, **known}.items()
    return {name: v for name, v in every if name.partition(".")[0] not in of_script}


def _leaves(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def figures(first: Side, second: Side) -> Iterator[Row]:
    """Yield the predicted figures of both configs, equal ones too."""
    columns = [dict(_figures(one)) for one in (first, second)]
    for name in columns[0]:
        yield Row(name, *(column[name] for column in columns))


def findings(first: Side, second: Side) -> Iterator[Row]:
    """Yield the rules that do not fire equally often in both configs."""
    counts = [_rules(one.findings) for one in (first, second)]
    for name in sorted({*counts[0], *counts[1]}):
        if counts[0].get(name) != counts[1].get(name):
            yield Row(name, *(count.get(name) for count in counts))


def text(first: Side, second: Side, width: int = 0) -> Iterator[str]:
    """Yield the comparison in lines, of at most ``width`` unless that is 0."""
    for name, one in (("a", first), ("b", second)):
        yield f"{name}: {plain(one.config.path)}"
        for refusal in one.predicted.refused:
            line = f"  {refusal.lead}: {plain(refusal.message)} ({refusal.rule})"
            yield from wrapped(line, width) if width else [line]
    parts = (
        ("values that differ", keys, "none"),
        ("predicted", figures, "nothing"),
        ("findings of lint that differ", findings, "none"),
    )
    tables = [[_cells(row) for row in rows(first, second)] for _, rows, _ in parts]
    heads = [(title, "a", "b") for title, *_ in parts]
    every = [row for table in tables for row in table] + heads
    short = [[cell * (len(cell) <= NAMES) for cell in row] for row in every]
    widths = column_widths(short, width)
    for (title, _, nothing), head, table in zip(parts, heads, tables, strict=True):
        yield ""
        for name, *values in (head, *table) if table else ():
            if len(name) > NAMES:
                yield name
                name = ""
            yield from aligned((name, *values), widths, wraps=bool(width))
        if not table:
            yield f"{title}: {nothing}"


def as_json(first: Side, second: Side) -> dict[str, Any]:
    """Return the comparison as one object."""
    return {
        "version": 1,
        "paths": [first.config.path, second.config.path],
        "values": [row._asdict() for row in keys(first, second)],
        "predicted": [
            {name: _plain_value(value) for name, value in row._asdict().items()}
            for row in figures(first, second)
        ],
        "findings": [row._asdict() for row in findings(first, second)],
    }


def _plain_value(value: Any) -> Any:
    if isinstance(value, Band):
        return {"value": value.value, "low": value.low, "high": value.high}
    return value


def _figures(one: Side) -> Iterator[tuple[str, Any]]:
    said = one.predicted
    yield "GPUs", _gpus(one)
    yield "memory per GPU [GiB]", said.memory
    yield "fit", said.fit.replace("-", " ")
    yield "tokens/s", said.speed
    yield "FP8 speed / bf16 speed", said.fp8_gain and round(said.fp8_gain, 3)
    names = {
        "tokens per step": "step.tokens",
        "steps": "max_steps",
        "peak learning rate": "learning_rate",
        "schedule": "schedule",
        "warmup [steps]": "warmup_steps",
    }
    known = {name: one.variants.job.find(fact) for name, fact in names.items()}
    yield from known.items()
    step = known["tokens per step"]
    for name, steps in (("warmup", "warmup [steps]"), ("training", "steps")):
        both = step and isinstance(known[steps], int)
        yield f"{name} [tokens]", step * known[steps] if both else None


def _gpus(one: Side) -> str:
    target = one.variants.target
    return f"{target.world_size or '?'} x {target.gpu or 'unknown GPU'}"


def _rules(found: Sequence[Diagnostic]) -> dict[str, str]:
    """Return how often each rule fires, with its severity."""
    counts: dict[str, list[str]] = {}
    for one in found:
        counts.setdefault(one.rule, []).append(one.severity)
    return {
        name: said[0] if len(said) == 1 else f"{len(said)} x {said[0]}"
        for name, said in counts.items()
    }


def _cells(row: Row) -> tuple[str, str, str]:
    return plain(row.name), _cell(row.first), _cell(row.second)


def _cell(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, Band):
        digits = 1 if value.value < TENTHS else 0
        low, mean, high = (
            f"{x:,.{digits}f}" for x in (value.low, value.value, value.high)
        )
        return f"{mean} ({low} to {high})"
    if isinstance(value, str):
        return plain(value) or '""'
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return plain(shown(value))
