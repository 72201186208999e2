"""How LLaMA-Factory reads a config: OmegaConf, then HfArgumentParser.parse_dict.

All keys stand at the top. An unknown one is refused (unless ALLOW_EXTRA_ARGS is set).
No value is converted to the type of its key: ``fp8: "false"`` is a text, and so true.
Then the argument classes check what they compute with (``checks.py``).

Source: LLaMA-Factory 0.9.5, hparams/parser.py; ``python -m
tools.verdicts llamafactory`` compares this with the trainer.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from typing import Any

from fp8tune.job import Words
from fp8tune.trainers.about import read_toml
from fp8tune.trainers.checks import Checks, Values
from fp8tune.trainers.faults import Fault, Loaded
from fp8tune.trainers.hints import Hints, key_meant, value_meant
from fp8tune.trainers.hugging_face import drop_share
from fp8tune.trainers.schema import Key, Schema

HINTS = 20
"""Unknown keys with a hint, at most."""

MAX_FAULTS = 1000

MEGATRON = (
    *("tensor_model_parallel_size", "pipeline_model_parallel_size"),
    *("expert_model_parallel_size", "sequence_parallel", "use_distributed_optimizer"),
    *("bias_activation_fusion", "apply_rope_fusion", "overlap_param_gather"),
    *("overlap_grad_reduce", "moe_grouped_gemm", "moe_token_dispatcher_type"),
    *("recompute_granularity", "recompute_method", "recompute_num_layers"),
)
"""Keys of the arguments that USE_MCA puts in place of transformers' (mcore_adapter)."""

ENUMS = (
    *("eval_strategy", "logging_strategy", "save_strategy", "hub_strategy"),
    *("lr_scheduler_type", "optim", "ray_storage_filesystem", "finetuning_type"),
)
"""Keys of which only the listed values are taken; others are not checked."""


class Loader:
    """Loads configs of one release."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.hints = Hints(schema)
        self.checks = Checks(schema, {"shares_differ": _shares_differ})

    def load(self, raw: dict[str, Any]) -> Loaded:
        """The arguments as the trainer holds them, and what it refuses or misreads."""
        faults: list[Fault] = []
        values: dict[str, Any] = {}
        keys = self.schema.top_keys
        if not raw.keys().isdisjoint(MEGATRON):
            return Loaded({}, raw.keys() & keys.keys(), [])  # other classes read it
        for name, spec in keys.items():
            values[name] = raw.get(name, spec.default)
            if name in raw:
                faults += self._value(name, spec, raw[name])
        faults += _of_one_release(self.schema.version, raw)
        unknown = [name for name in raw if name not in keys][:MAX_FAULTS]
        faults += map(self._unknown, unknown, range(len(unknown)))
        faults += self.checks.refusals(values, raw)
        drop_share(values)
        return Loaded(values, raw.keys() & keys.keys(), faults)

    def _unknown(self, name: str, number: int) -> Fault:
        """An unknown key, the first of them with a hint."""
        path = (name,)
        hint = self.hints.for_key(path) if number < HINTS else ""
        facts = {"key": name, "name": name, "hint": hint}
        facts |= {"table": f"a {self.schema.title} config"}
        facts |= key_meant(hint, path, self.schema.top_keys)
        return Fault("unknown-key", path, facts)

    def _value(self, name: str, spec: Key, value: Any) -> list[Fault]:
        """What is wrong with one value."""
        if spec.base == "bool" and isinstance(value, str):
            facts: dict[str, Any] = {"key": name, "value": value}
            kind = "read-as-true" if value else "not-converted"
            return [Fault(kind, (name,), facts | {"type": spec.kind})]
        if spec.base in ("int", "float") and isinstance(value, (bool, str)):
            return [_no_number(name, spec, value)]
        if _has_reference(value):
            return [Fault("reference-kept", (name,), {"key": name})]
        null = value is None and (name not in ENUMS or spec.optional)
        listed = not spec.allowed or null or value in spec.allowed
        if listed or name == "fp8_backend":  # a rule of its own says what follows
            return []
        hint = self.hints.for_value(spec, value)
        facts = {"key": name, "value": value, "allowed": spec.allowed, "hint": hint}
        facts |= value_meant(hint, value)
        kind = "value-not-allowed" if name in ENUMS else "not-listed"
        return [Fault(kind, (name,), facts)]


def _has_reference(value: Any) -> bool:
    """Whether a text has ``${...}``: OmegaConf is not asked to fill it in."""
    texts = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and "${" in text for text in texts)


def _shares_differ(values: Values) -> bool:
    """Whether the shares of the data sets are not one number for each."""
    count = len([float(share) for share in _texts(values["interleave_probs"])])
    sets = (_texts(values[name]) for name in ("dataset", "eval_dataset"))
    return any(each is not None and len(each) != count for each in sets)


def _texts(value: Any) -> Any:
    """The entries of a text with commas; other values as they are."""
    return value.split(",") if isinstance(value, str) else value


def _no_number(name: str, spec: Key, value: bool | str) -> Fault:
    """A number that is written as something else, and stays that."""
    facts: dict[str, Any] = {"key": name, "value": value}
    if isinstance(value, bool):
        facts["result"] = int(value)
        return Fault("boolean-for-number", (name,), facts)
    facts |= {"type": spec.kind}
    with suppress(ValueError, OverflowError):
        number = int(value) if spec.base == "int" else float(value)
        if math.isfinite(number):
            facts["meant"] = number
    return Fault("not-converted", (name,), facts)


def _of_one_release(version: str, raw: dict[str, Any]) -> list[Fault]:
    """Keys that LLaMA-Factory has only with one release of transformers."""
    faults = []
    for release, names in _by_transformers().get(version, {}).items():
        other = Words("4" if release == "5" else "5")
        facts = {"package": "transformers", "release": Words(release), "other": other}
        mine = (name for name in names if name in raw)
        faults += [Fault("key-of-one-release", (n,), {"key": n, **facts}) for n in mine]
    return faults


@cache
def _by_transformers() -> dict[str, dict[str, list[str]]]:
    return read_toml("llamafactory", "keys_by_transformers.toml")
