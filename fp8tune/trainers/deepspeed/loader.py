"""What DeepSpeed makes of a JSON config.

Some sections are pydantic models, which refuse unknown keys and convert values; before
that every key whose value is ``"auto"`` is dropped, because Accelerate and the Trainer
fill those in. Other sections are read key by key, and unknown keys at the top are never
looked at. What depends on the number of ranks is in job.py.

Source: deepspeed 0.17.6, 0.18.9 and 0.19.8, runtime/config.py,
runtime/precision_config.py and runtime/zero/config.py.
``python -m tools.verdicts deepspeed`` compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.formats.values import find
from fp8tune.trainers.checks import Checks
from fp8tune.trainers.faults import HINTS, Loaded, Loading, dotted
from fp8tune.trainers.hints import key_meant
from fp8tune.trainers.lax import CONVERTERS, NOTHING
from fp8tune.trainers.schema import Key, Schema, since

AUTO = "auto"
"""Stands for a value that Accelerate or the Trainer fills in."""

STRICT = (
    *("zero_optimization", "bf16", "bfloat16", "fp16", "hybrid_engine", "comms_logger"),
    *("tensorboard", "wandb", "csv_monitor", "comet", "weight_quantization"),
    *("tensor_parallel", "compile"),
)
"""Sections that are pydantic models."""

LISTED = ("torch_autocast", "activation_checkpointing")
"""Sections whose keys are all known; others are ignored in them."""

FP8 = ("fp8", "float8", "fp8_config", "transformer_engine", "mxfp8")
"""Names of sections that people write for FP8; DeepSpeed has none."""

_GONE = "this feature was removed from DeepSpeed: remove the key"
REMOVED: dict[Path, str] = {
    ("nebula",): _GONE,
    ("compression_training",): _GONE,
    ("amp",): "Apex was removed: use `bf16`, `fp16` or `torch_autocast`",
    ("quantize_training",): _GONE,
    ("sparse_gradients",): _GONE,
    ("eigenvalue",): _GONE,
    ("sparse_attention",): _GONE,
    ("elasticity",): "elastic training was removed: set the batch sizes directly",
    ("graph_harvesting",): _GONE,
    ("curriculum_learning",): (
        "write it in `data_efficiency.data_sampling.curriculum_learning`"
    ),
    ("progressive_layer_drop",): _GONE,
    ("zero_optimization", "mics_shard_size"): _GONE,
    ("zero_optimization", "mics_hierarchical_params_gather"): _GONE,
    ("zero_optimization", "zeropp_loco_param"): _GONE,
}
"""Keys that DeepSpeed refuses by name, with what to do."""

BATCH = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
)

REMARKS = ("_", "#", "/", "comment", "description", "note")
"""How keys begin that hold a comment."""


class Loader:
    """Loads configs of one version."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.checks = Checks(schema)

    def load(self, raw: dict[str, Any]) -> Loaded:
        """The config as DeepSpeed holds it, with what it refuses or ignores."""
        run = _Run(self.schema)
        run.file(raw, self.checks)
        return run.loaded


class _Run(Loading):
    """One file on its way through the loader."""

    def file(self, raw: dict[str, Any], checks: Checks) -> None:
        """Load all sections, then look at values that DeepSpeed checks itself."""
        gone = dict(_removed(raw)) if since(self.schema, 0, 19) else {}
        for section in self.schema.sections:
            self.values[section] = section in raw
        for key, spec in self.schema.top_keys.items():
            self.values[key] = raw.get(key, spec.default)
        for key, value in raw.items():
            self.written.add(key)
            if key in self.schema.sections:
                self.section(key, value)
            elif key not in self.schema.top_keys:
                self.unread(key)
        self.values["uses_auto"] = _has_auto(raw)
        self.together(raw, checks)
        self.faults = [fault for fault in self.faults if fault.path not in gone]
        for path, hint in gone.items():
            self.fault("removed-key", path, hint=hint)

    def together(self, raw: dict[str, Any], checks: Checks) -> None:
        """Check the values, with the defaults of sections that are not written."""
        for section in ("zero_optimization", "bf16", "fp16"):
            if section not in raw:
                self.table(self.schema.section_class(section), {}, (section,))
        for key in BATCH:
            if isinstance(value := raw.get(key), bool):
                self.fault("boolean-for-number", (key,), value=value, result=int(value))
            elif isinstance(value, str) and value != AUTO:
                self.fault("wrong-type", (key,), value=value, type="a whole number")
        for fault in checks.refusals(self.values | {"file": raw}, self.written):
            facts = {"value": find(raw, fault.path), "reason": fault.facts["reason"]}
            self.fault(fault.kind, fault.path, **facts)

    def unread(self, name: str) -> None:
        """Note a key at the top that DeepSpeed does not look at."""
        if name in FP8:
            self.fault("fp8-not-read", (name,))
        elif not name.lower().startswith(REMARKS):
            facts: dict[str, Any] = {"hint": ""}
            if len(self.faults) < HINTS:
                names = (*self.schema.sections, *self.schema.top_keys)
                hint = self.hints.for_name(name, names).replace('"', "`")
                facts = {"hint": hint or self.hints.for_key((name,))}
                facts |= key_meant(facts["hint"], (name,), names)
            self.fault(
                "ignored-key", (name,), name=name, table="DeepSpeed's config", **facts
            )

    def section(self, name: str, raw: Any) -> None:
        """Load one section."""
        if name == "zero_optimization" and isinstance(raw, bool):
            self.values["zero_optimization.stage"] = int(raw)  # an old form
            return
        if not isinstance(raw, dict):
            if raw is not None or name != "bf16":  # null is like none there
                self.fault("section-not-a-table", (name,), value=raw)
            return
        kind = self.schema.section_class(name)
        if name in STRICT:
            self.table(kind, raw, (name,))
            return
        for key, value in raw.items():
            self.written.add(f"{name}.{key}")
            if key in self.schema.classes[kind]:
                self.values[f"{name}.{key}"] = value
            elif name in LISTED:
                self.not_a_key("ignored-key", (name, key), self.schema.classes[kind])

    def not_a_key(self, kind: str, path: Path, keys: dict[str, Key]) -> None:
        """Note a key that a section does not have."""
        facts = {"name": str(path[-1]), "table": f"`{dotted(path[:-1])}`"}
        self.fault(kind, path, **facts, **self.meant(path, keys))

    def table(self, kind: str, raw: dict[str, Any], path: Path) -> None:
        """Load one pydantic model with its defaults."""
        keys = self.schema.classes[kind]
        for key, value in raw.items():
            here = (*path, key)
            self.written.add(dotted(here))
            if key not in keys:
                refused = value != AUTO
                self.not_a_key("unknown-key" if refused else "ignored-key", here, keys)
        for key, spec in keys.items():
            here = (*path, key)
            self.values[dotted(here)] = spec.default
            if key in raw and raw[key] != AUTO:
                value = self.value(spec, raw[key], here)
                if value is NOTHING:
                    del self.values[dotted(here)]
                else:
                    self.values[dotted(here)] = value

    def value(self, spec: Key, raw: Any, path: Path) -> Any:
        """One value as pydantic converts it; ``NOTHING`` if it refuses it."""
        if raw is None and spec.optional:
            return None
        if spec.base in self.schema.classes:
            if isinstance(raw, dict):
                self.table(spec.base, raw, path)
                return True
            self.fault("section-not-a-table", path, value=raw)
            return NOTHING
        kinds = spec.base.split(" | ")
        if "Any" in kinds:
            return raw
        found = (CONVERTERS[kind](raw) for kind in kinds)
        value = next((each for each in found if each is not NOTHING), NOTHING)
        if value is NOTHING:
            kind = "value-not-convertible" if isinstance(raw, str) else "wrong-type"
            self.fault(kind, path, value=raw, type=spec.kind)
        elif spec.allowed and value not in spec.allowed:
            self.not_allowed_by(spec, path, raw)
            return NOTHING
        elif spec.bound and not spec.contains(value):
            self.fault("value-out-of-range", path, value=raw, bound=spec.bound, hint="")
            return NOTHING
        elif isinstance(raw, bool) and not isinstance(value, bool):
            self.fault("boolean-for-number", path, value=raw, result=value)
        return value


def _removed(raw: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """The keys whose features 0.19 no longer has, which it refuses."""
    for path, hint in REMOVED.items():
        table = raw if len(path) == 1 else raw.get(str(path[0]))
        if isinstance(table, dict) and path[-1] in table:
            yield path, hint


def _has_auto(raw: Any) -> bool:
    """Whether a value is ``"auto"``: Accelerate or the Trainer reads the file."""
    if isinstance(raw, dict):
        return any(map(_has_auto, raw.values()))
    return bool(raw == AUTO)
