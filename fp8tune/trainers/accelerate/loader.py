"""What Accelerate makes of a launch file and of the files that belong to it.

The launch file is the root, training arguments are the section ``training``, a
DeepSpeed file is ``deepspeed``. Of a file that is not known nothing has a value.
Keys that the launcher does not know end it, at the root; in a table they are set as
arguments that nothing reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fp8tune.formats.document import HOLE, Path
from fp8tune.job import Prose, Words
from fp8tune.trainers.about import read_toml
from fp8tune.trainers.accelerate.arguments import Reader, reader
from fp8tune.trainers.accelerate.launch import (
    Launch,
    Refused,
    argument,
    arguments,
)
from fp8tune.trainers.accelerate.llamafactory import (
    as_arguments,
    is_llamafactory,
    trains,
)
from fp8tune.trainers.faults import HINTS, Loaded, Loading, dotted
from fp8tune.trainers.hints import key_meant, value_meant
from fp8tune.trainers.hugging_face import drop_share
from fp8tune.trainers.schema import Key, Schema, since

OTHER_FILES = ("training", "deepspeed")
"""Sections that are files of their own."""

SAGEMAKER = "AMAZON_SAGEMAKER"
SAGEMAKER_KEYS = ("ec2_instance_type", "iam_role_name")
"""The other environment, and the keys that its files need."""

ASKED = {
    "amax_history_length": "amax_history_len",
    "amax_compute_algorithm": "amax_compute_algo",
    "optimization_level": "opt_level",
}
"""Names under which ``accelerate config`` writes answers that nothing reads.

https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/commands/config/cluster.py#L808
"""

LATER = {
    "enable_fsdp_float8_all_gather": "1.13",
    "pad_inner_dim": "1.13",
    "use_mxfp8_block_scaling": "1.11",
}
"""The first release that reads a key of ``fp8_config``."""

FALSE_WORDS = ("false", "no", "off", "0", "none")
CHECKPOINTS = ("gradient_checkpointing", "activation_checkpointing")
SWITCHES = ("bf16", "fp16", "torch_compile", "use_cpu", *CHECKPOINTS)
"""Training arguments of which text is true, whatever it says."""

NUMBERS = (
    *("per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate"),
    *("weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm"),
    *("num_train_epochs", "max_steps", "warmup_steps", "logging_steps", "seed"),
)
"""Training arguments that every run compares or counts with."""

WORDS = (
    *("eval_strategy", "logging_strategy", "lr_scheduler_type", "optim"),
    "save_strategy",
)
"""Training arguments of which TrainingArguments makes an enumeration's value."""

FP8_ARGUMENTS = ("fp8", "fp8_backend", "fp8_config", "mixed_precision")
"""Keys by which other trainers and launch files ask for FP8."""


class Loader:
    """Loads the files of one release."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.releases: Mapping[str, str] = {}

    def load(
        self,
        raw: dict[str, Any],
        command: dict[str, Any] | None = None,
        script: str = "",
    ) -> Loaded:
        """The values as the launcher holds them, and what it refuses or ignores.

        ``command`` has the launcher's own options by their names, ``None`` if the
        command is not known: what the file lacks may stand there. ``script`` is what
        reads the training arguments, a path or a command of ``trl``.
        """
        run = _Run(self.schema)
        run.command, run.script, run.releases = command, script, self.releases
        run.files(raw)
        return run.loaded


class _Run(Loading):
    """The files of one job on their way through the loader."""

    command: dict[str, Any] | None = None
    script = ""
    releases: Mapping[str, str] = {}

    def files(self, raw: dict[str, Any]) -> None:
        """Load the launch file, then those that belong to it."""
        others = {k: raw[k] for k in OTHER_FILES if isinstance(raw.get(k), dict)}
        launch = {key: value for key, value in raw.items() if key not in others}
        if launch:
            self.launch(launch)
        for name, values in others.items():
            self.other(name, values)

    def launch(self, raw: dict[str, Any]) -> None:
        """Take the launcher's steps, and note what it holds after them."""
        if raw.get("compute_environment") == SAGEMAKER:
            self.sagemaker(raw)
            return
        known = {*self.schema.top_keys, *self.schema.sections}.difference(OTHER_FILES)
        options = [k for k in self.command or () if not k.startswith("fp8_")]
        self.written |= {dotted((key,)) for key in (*raw, *options)}
        unknown = [key for key in raw if key not in known]
        for key in unknown:
            self.unknown((key,))
        read = {key: value for key, value in raw.items() if key in known}
        launch = Launch(self.schema, read, self.command)
        try:
            launch.run()
        except Refused as refused:
            self.refused(refused)
        self.ignored(read)
        self.hold(launch, read)

    def sagemaker(self, raw: dict[str, Any]) -> None:
        """Note what becomes of a file for SageMaker; its keys are not checked."""
        missing = [key for key in SAGEMAKER_KEYS if key not in raw]
        reason = ""
        if since(self.schema, 1, 10):
            reason = "since 1.10 it ends with AttributeError for files for SageMaker"
        elif missing:
            reason = f"a file for SageMaker needs `{missing[0]}`"
        if reason:
            facts = {"reason": reason, "hint": ""}
            self.fault("launch-refused", ("compute_environment",), **facts)

    def refused(self, refused: Refused) -> None:
        """Note what ends the launcher, with the value that was meant."""
        facts = {"hint": ""} | refused.facts
        vague = facts.get("value") is False or not facts["hint"]
        if refused.kind == "value-not-allowed" and vague:
            facts |= self.word_meant(facts["allowed"], facts["value"])
        self.fault(refused.kind, refused.path, **facts)

    def word_meant(self, allowed: list[str], value: Any) -> dict[str, Any]:
        """Which of some words was meant by a value."""
        no = next((word for word in ("no", "NO") if word in allowed), "")
        if value is False and no:  # YAML's word for false
            return {"hint": f'did you mean "{no}"?', "meant": no, "sure": True}
        spec = Key(type="str", base="str", checked=True, allowed=allowed)
        hint = self.hints.for_value(spec, value)
        return {"hint": hint, **value_meant(hint, value)}

    def unknown(self, path: Path) -> None:
        """Note a key of the root that the launcher does not know."""
        facts: dict[str, Any] = {"hint": ""}
        if len(self.faults) < HINTS:
            keys = [*self.schema.top_keys, *self.schema.sections]
            home = self.home(str(path[0]))
            facts["hint"] = self.hints.for_name(str(path[0]), keys).replace('"', "`")
            facts |= key_meant(facts["hint"], path, keys)
            if home:
                facts |= {"hint": f"did you mean `{home}`?", "home": Words(home)}
                facts.pop("meant", None)
        table = f"a launch file of {self.schema.title}"
        self.fault("unknown-key", path, name=str(path[0]), table=table, **facts)

    def home(self, name: str) -> str:
        """Return the key of a table that an argument of the launcher is."""
        place, _ = arguments(self.schema).get(name, ("", None))
        return place

    def ignored(self, raw: dict[str, Any]) -> None:
        """Note keys of tables that no program reads."""
        known = set(arguments(self.schema)) | set(self.schema.top_keys)
        for table, entries in raw.items():
            if table not in self.schema.sections or not isinstance(entries, dict):
                continue
            keys = self.schema.classes[self.schema.section_class(table)]
            for key in entries:
                name = argument(self.schema, table, key) if isinstance(key, str) else ""
                if name not in known:
                    self.unread((table, key), keys)

    def unread(self, path: Path, keys: dict[str, Key]) -> None:
        """Note a key that nothing reads, and which one was meant."""
        table, name = str(path[0]), str(path[-1])
        facts: dict[str, Any] = {"hint": ""}
        if table == "fp8_config" and ASKED.get(name) in keys:
            meant = ASKED[name]
            facts["hint"] = f"Accelerate reads `{meant}`"
            facts |= {"meant": Words(meant), "sure": True}
        elif table == "fp8_config" and name in LATER:
            facts["hint"] = (
                f"Accelerate {LATER[name]} is the first release that reads it"
            )
        elif len(self.faults) < HINTS:
            facts["hint"] = self.hints.for_name(name, keys).replace('"', "`")
            facts |= key_meant(facts["hint"], path, keys)
        self.fault("unread-key", path, name=name, table=f"`{table}`", **facts)

    def hold(self, launch: Launch, raw: dict[str, Any]) -> None:
        """Note the values that the launcher hands to the script."""
        for name, spec in self.schema.top_keys.items():
            self.values[name] = launch.raw.get(name, spec.default)
        if self.values["distributed_type"] is False:  # NO without quotes, in YAML
            self.values["distributed_type"] = "NO"
        precision = launch.arguments.get("mixed_precision") or launch.raw.get(
            "mixed_precision"
        )
        self.values["mixed_precision"] = str(precision or "no").lower()
        own = raw.get("mixed_precision", "fp16" if raw.get("fp16") else None)
        options = self.command or {}
        self.values["precision_in_file"] = own is not None and (
            not options.get("mixed_precision")
        )
        for name, (key, _) in arguments(self.schema).items():
            self.values[key] = launch.arguments[name]
            if name in launch.places:
                self.written.add(key)
        for table in self.schema.sections:
            if table not in OTHER_FILES and isinstance(raw.get(table), dict):
                self.values[table] = True

    def other(self, name: str, raw: dict[str, Any]) -> None:
        """Load training arguments or a DeepSpeed file; other keys are the script's."""
        other = name == "training" and is_llamafactory(raw)
        if other and not trains(raw):
            return
        given = as_arguments(raw) if other else raw
        self.values[name] = True
        if other:
            self.values["llamafactory"] = True
            self.values["llamafactory_fp8"] = bool(raw.get("fp8"))
        if name == "training":
            self.values["arguments_known"] = True
            self.values["trl_arguments"] = not (other or trl_keys().isdisjoint(raw))
            if not other:
                self.argument_names(raw)
                self.argument_values(raw)
        for key, spec in self.schema.classes[self.schema.section_class(name)].items():
            self.values[f"{name}.{key}"] = given.get(key, spec.default)
            if key in raw and key in given:
                self.written.add(f"{name}.{key}")
        drop_share(self.values, f"{name}.")
        if name == "training" and not other and not self.values["trl_arguments"]:
            for key in filter(raw.__contains__, SWITCHES):  # TrlParser converts text
                if _quoted_false(raw[key]):
                    self.fault("text-read-as-true", (name, key), value=raw[key])

    def argument_names(self, raw: dict[str, Any]) -> None:
        """Note training arguments that neither transformers nor TRL has.

        Of a script that is not known: those that ask for FP8, and misspelt ones.
        """
        self.written |= {f"training.{key}" for key in raw}
        usual = all(key in self.schema.classes["Training"] for key in raw)
        if usual and not self.releases:
            return
        reads = self.reader()
        names = reads.names
        for key in raw:
            path = ("training", key)
            if key in FP8_ARGUMENTS and not reads.command:
                self.fp8_argument(path, raw[key])
            elif key not in names:
                self.no_argument(path, reads)

    def argument_values(self, raw: dict[str, Any]) -> None:
        """Note values that TrainingArguments refuses, or that end the Trainer.

        Of a script that is not known: those that are nearly a value, or no number.
        """
        for key, value in raw.items():
            path = ("training", key)
            text = isinstance(value, str) and HOLE not in value
            if key in NUMBERS and text and not _is_number(value):
                self.fault("wrong-type", path, value=value, type="a number")
            elif key in WORDS and (text or value is False):
                reads = self.reader()
                allowed = reads.values(key)
                facts = self.word_meant(allowed, value)
                if value not in allowed and (reads.command or facts["hint"]):
                    facts |= {"allowed": allowed, "value": value}
                    self.fault("value-not-allowed", path, **facts)

    def reader(self) -> Reader:
        """What reads the training arguments: TRL only if a name or the script says."""
        trl, transformers = map(self.releases.get, ("trl", "transformers"))
        reads = reader(self.script, trl or "", transformers or "")
        ours = reads.command or self.values["trl_arguments"]
        return reads if ours else reads._replace(trl="")

    def no_argument(self, path: Path, reads: Reader) -> None:
        """Note a name that no class has, at all or in the release at hand."""
        name = str(path[-1])
        meant, reason = reads.meant(name), reads.why_missing(name)
        hint = f"did you mean `{meant}`?" if meant else ""
        facts = {"name": name, **key_meant(hint, path, [meant])}
        facts["hint"] = Prose("; ".join(filter(None, (reason, hint))))
        if reads.command:
            kind = "unknown-key" if reads.refuses else "ignored-key"
            self.fault(kind, path, table=reads.title, title="TRL", **facts)
        elif reason:
            facts |= {"reason": Prose(reason), "hint": hint}
            self.fault("argument-of-another-release", path, **facts)
        elif meant:
            self.fault("unknown-argument", path, **facts)

    def fp8_argument(self, path: Path, value: Any) -> None:
        """Note a key that asks for FP8; neither transformers nor TRL has one."""
        if value and (path[-1] != "mixed_precision" or str(value).lower() == "fp8"):
            self.fault("fp8-argument", path, value=value)


def _quoted_false(value: Any) -> bool:
    """Whether a value is a text that says false."""
    return isinstance(value, str) and value.strip().lower() in FALSE_WORDS


def _is_number(text: str) -> bool:
    """Whether a text is a number, as argparse converts it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


@cache
def trl_keys() -> frozenset[str]:
    """Keys that only the arguments of TRL have."""
    return frozenset(read_toml("accelerate", "trl.toml")["keys"])
