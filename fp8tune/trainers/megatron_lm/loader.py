"""What Megatron-LM makes of the flags of a script.

argparse reads them, ``validate_args`` and ``TransformerConfig`` check how they fit.
Of a flag whose value only a run knows, the value is unknown. Where words of the command
may stand for more flags, so is every flag that is not written.

Source: megatron/training/arguments.py and core/transformer/transformer_config.py;
``python -m tools.verdicts megatron_lm`` compares this with both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fp8tune.formats import ABOUT_SCRIPT
from fp8tune.formats.document import Path
from fp8tune.suggest import closest
from fp8tune.trainers.about import read_toml, trainers
from fp8tune.trainers.checks import Checks
from fp8tune.trainers.described.loader import Wrong, of_type
from fp8tune.trainers.faults import Fault, Loaded
from fp8tune.trainers.hints import Hints, key_meant, value_meant
from fp8tune.trainers.schema import IN_WORDS, Key, Schema

MAX_FAULTS = 200


PROGRAMS = ("pretrain_gpt.py",)
"""Programs that take no flags beyond those of the schema and of ``flags.toml``."""

YAML = "yaml_cfg"
"""The flag with whose file in YAML every other flag is replaced."""

REPLACED = {
    YAML: "--yaml-cfg, whose file stands in for all flags and is not read here",
    "use_checkpoint_args": "--use-checkpoint-args, which takes flags from a checkpoint",
}
"""Flags that take arguments from elsewhere, and what that means."""

REQUIRED = (
    "micro_batch_size",
    "hidden_size",
    "num_attention_heads",
    "max_position_embeddings",
)
"""Flags that must be given; so must ``ALTERNATIVES``, by one of their names."""

ALTERNATIVES = {
    "num_layers": ("num_layers", "encoder_num_layers", "hybrid_layer_pattern"),
    "seq_length": ("seq_length", "encoder_seq_length"),
}

TRAINING = {"train_iters": ("train_iters", "train_samples"), "lr": ("lr",)}
"""Those that a run needs unless it only evaluates."""


class Loader:
    """Loads the flags of one script."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.programs = trainers()["megatron_lm"].programs
        """Those of Megatron-LM. Others may take more values of a flag, as forks do."""
        self.hints = Hints(schema)
        self.checks = Checks(schema)

    def load(self, raw: dict[str, Any]) -> Loaded:
        """Return the arguments as Megatron-LM holds them, and what it refuses."""
        keys = self.schema.top_keys
        unresolved = _unresolved(raw, keys)
        unresolved += [words for name, words in REPLACED.items() if name in raw]
        hidden, own = bool(unresolved), raw.get("program") in PROGRAMS
        maybe = dict.fromkeys(raw.get("maybe", ()))
        if YAML in raw:
            raw = {name: raw[name] for name in ABOUT_SCRIPT if name in raw}
        values: dict[str, Any] = {}
        faults: list[Fault] = []
        given = {name: value for name, value in raw.items() if name not in maybe}
        for name, value in given.items():
            spec = keys.get(name)
            if name in ABOUT_SCRIPT:
                values |= value if name == "environment" else {name: value}
                continue
            if spec is None:
                faults += self._unknown(name, raw)
                continue
            try:
                taken = _taken(spec, value, whole=not hidden and own)
            except Wrong as wrong:
                if (
                    wrong.kind != "value-not-allowed"
                    or raw.get("program") in self.programs
                ):
                    faults.append(self._fault(spec, name, value, wrong))
                continue
            if taken is not None:
                values[name] = taken
        written = given.keys() & keys.keys()
        if not hidden:
            values |= _defaults(keys, raw)
            faults += _missing(raw) if own else ()
        open_ = [n for n in maybe if n in keys or [*self._unknown(n, raw)]]
        values |= {"unresolved": unresolved, "maybe": open_}
        faults += self.checks.refusals(values, written)
        values["vocab_entries"] = values.pop("vocab_size", None)  # not padded yet
        return Loaded(values, set(written), faults[:MAX_FAULTS])

    def _unknown(self, name: str, raw: dict[str, Any]) -> Iterator[Fault]:
        """Yield a fault for a flag that no release has."""
        if raw.get("program") not in PROGRAMS:
            return
        names = _names()
        if name in names:
            return
        near = "fp8_format" if name == "fp8" else closest(name, names)
        path: Path = (name,)
        hint = f"did you mean `{near}`?" if near else ""
        if " " in name:
            hint = "the quotes make one word of the flag and its value: remove them"
        facts = {"key": name, "name": name, "table": "Megatron-LM", "hint": hint}
        yield Fault("unknown-key", path, {**facts, **key_meant(hint, path, names)})

    def _fault(self, spec: Key, name: str, value: Any, wrong: Wrong) -> Fault:
        facts = {"key": name, "value": value, "hint": "", **wrong.facts}
        if wrong.kind == "value-not-allowed" and spec.base == "str":
            hint = self.hints.for_value(spec, value)
            facts |= {"hint": hint, **value_meant(hint, value)}
        return Fault(wrong.kind, (name,), facts)


def _defaults(keys: dict[str, Key], raw: dict[str, Any]) -> dict[str, Any]:
    """Return the values of flags that are not given and have one then."""
    without = {*raw, *REQUIRED}
    return {name: key.default for name, key in keys.items() if name not in without}


def _unresolved(raw: dict[str, Any], keys: dict[str, Key]) -> list[str]:
    """Return what may be more flags: words behind those that take no value too."""
    words, unknown = raw.get("unresolved"), raw.get("unknown")
    found = [*words] if isinstance(words, list) else []
    for name, reason in unknown.items() if isinstance(unknown, dict) else ():
        if name in keys and keys[name].base == "bool":
            found.append(reason)
    return found


def _names() -> frozenset[str]:
    """Return the names of all flags, of every release that was read."""
    return frozenset(read_toml("megatron_lm", "flags.toml")["names"])


def _taken(spec: Key, value: Any, *, whole: bool) -> Any:
    """Return the value of a flag, ``None`` if it is unknown; raises ``Wrong``."""
    if spec.base == "bool":
        if not isinstance(value, bool | None):
            raise Wrong("wrong-type", type="a flag without a value")
        return value is not False
    if value is True:
        what = IN_WORDS.get(spec.base, "a list of words")
        raise Wrong("wrong-type", type=f"followed by {what}")
    if value is None:
        return None
    if spec.base.startswith("list"):
        words = value if isinstance(value, list) else [value]
        return None if None in words else words
    if isinstance(value, list):
        return _several(value, whole=whole)
    if spec.base == "str":
        value = str(value)
    if not of_type(spec.base, value):
        raise Wrong("wrong-type", type=spec.kind)
    if spec.allowed and value not in spec.allowed:
        raise Wrong("value-not-allowed", allowed=spec.allowed)
    return value


def _several(words: list[Any], *, whole: bool) -> None:
    """Raise ``Wrong`` for words that no flag takes, if the ``whole`` command is known.

    Else they may belong to what is not resolved.
    """
    if whole and None not in words:
        more = " ".join(map(str, words[1:]))
        raise Wrong("wrong-type", type=f"one word, without `{more[:40]}`")


def _missing(raw: dict[str, Any]) -> Iterator[Fault]:
    """Yield the flags that are required and not given."""
    wanted = {name: (name,) for name in REQUIRED} | ALTERNATIVES
    if "skip_train" not in raw:
        wanted |= TRAINING
    for name, names in wanted.items():
        if not any(map(raw.__contains__, names)):
            yield Fault("missing-key", (), {"key": name, "name": name})
