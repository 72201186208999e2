"""What ``accelerate launch --config_file`` does with a file, up to the script's start.

It fills a namespace with the defaults of its command line, then with the file's values
as they are: nothing is converted. So what fails, fails where a value is used. This
module takes the same steps in the same order, and stops at the first that fails.

Source: accelerate 1.8.1 to 1.15.0, commands/config/config_args.py, commands/launch.py
and utils/launch.py; ``python -m tools.verdicts accelerate`` compares.
"""

from __future__ import annotations

from typing import Any

from fp8tune.formats.document import Path
from fp8tune.trainers.schema import Schema, since

PREFIXES = {"fsdp_config": "fsdp_", "fp8_config": "fp8_", "dynamo_config": "dynamo_"}
"""What the launcher puts before the keys of a table that lack it."""

UNPREFIXED = {"fsdp_config": "fsdp", "fp8_config": "fp8", "dynamo_config": "dynamo_"}
"""How keys begin that need no prefix."""

KEPT = {"rdzv_backend": "static", "downcast_bf16": False, "enable_cpu_affinity": False}
KEPT |= {"same_network": False, "tpu_use_cluster": False, "tpu_use_sudo": False}
"""Arguments that have a default, which the file does not replace."""

GPUS = tuple(
    f"MULTI_{name}"
    for name in ("GPU", "NPU", "MLU", "SDAA", "MUSA", "XPU", "HPU", "NEURON")
)
"""Kinds of distribution that start one process per device; the last since 1.13."""

SPAWNED = ("FSDP", "MEGATRON_LM", *GPUS)

WORDS_OF_TRUTH = (
    "y",
    "yes",
    "t",
    "true",
    "on",
    "1",
    "n",
    "no",
    "f",
    "false",
    "off",
    "0",
)
"""What Accelerate reads as true or false."""


class Refused(Exception):
    """The launcher ends: at a key, with the kind of fault and its facts."""

    def __init__(self, key: str, kind: str = "launch-refused", **facts: Any) -> None:
        super().__init__(kind)
        self.path: Path = tuple(key.split("."))
        self.kind = kind
        self.facts = facts


def argument(schema: Schema, table: str, key: str) -> str:
    """Return the launcher's argument that a key of a table sets."""
    prefixed = table in PREFIXES and not key.startswith(UNPREFIXED[table])
    if table == "dynamo_config" and not since(schema, 1, 14):
        prefixed = False
    return PREFIXES[table] + key if prefixed else key


def arguments(schema: Schema) -> dict[str, tuple[str, Any]]:
    """Return the arguments that tables set: the dotted key of each, and its default."""
    found = {}
    for table in schema.sections:
        if not table.endswith("_config"):
            continue
        for key, spec in schema.classes[schema.section_class(table)].items():
            name = PREFIXES[table] + key if table == "fp8_config" else key
            name = "fp8_format" if key == "fp8_format" else name
            default = None if key == "dynamo_backend" else spec.default
            found[name] = f"{table}.{key}", default
    return found


class Launch:
    """One file on its way through the launcher; raises ``Refused``.

    ``arguments`` are the launcher's arguments after the file was read, ``places`` says
    which path of the file set one of a table. ``command`` has the options of the
    command, ``None`` if it is not known: then it may give what the file lacks.
    """

    def __init__(
        self, schema: Schema, raw: dict[str, Any], command: dict[str, Any] | None
    ) -> None:
        self.schema = schema
        options = command or {}
        self.fp8 = {k: v for k, v in options.items() if k.startswith("fp8_")}
        self.raw = raw | {k: v for k, v in options.items() if k not in self.fp8}
        self.command_is_known = command is not None
        known = arguments(schema)
        self.arguments: dict[str, Any] = {k: v for k, (_, v) in known.items()} | KEPT
        self.places: dict[str, Path] = {}

    def run(self) -> None:
        """Take all steps."""
        self.file()
        self.fill()
        self.validate()
        kind = self.raw["distributed_type"]
        if kind == "DEEPSPEED":
            self.deepspeed()
        elif kind in SPAWNED and kind in self.kinds:
            self.spawn()
        else:
            self.simple()

    @property
    def kinds(self) -> list[Any]:
        """The kinds of distribution of this release."""
        return self.schema.classes["Launch"]["distributed_type"].allowed

    def file(self) -> None:
        """Read the file as a ``ClusterConfig``."""
        raw = self.raw
        raw.setdefault("compute_environment", "LOCAL_MACHINE")
        if "distributed_type" not in raw:
            raise Refused("distributed_type", "missing-key", name="distributed_type")
        if raw["distributed_type"] == "NO":
            raw.setdefault("num_processes", 1)
        raw.setdefault("mixed_precision", "fp16" if raw.get("fp16") else None)
        raw.pop("fp16", None)
        if "dynamo_backend" in raw:
            backend = raw.pop("dynamo_backend")
            chosen = {} if backend == "NO" else {"dynamo_backend": backend}
            raw["dynamo_config"] = chosen
        raw.setdefault("use_cpu", False)
        raw.setdefault("num_machines", 1)
        raw.setdefault("machine_rank", 0)
        raw.setdefault("num_processes", -1)
        kind = raw["distributed_type"]
        if isinstance(kind, str) and kind not in self.kinds:
            facts = {"value": kind, "allowed": self.kinds}
            raise Refused("distributed_type", "value-not-allowed", **facts)

    def fill(self) -> None:
        """Set the arguments: those of the file's top, then those of its tables."""
        raw, tables = self.raw, self.schema.sections
        if raw.get("gpu_ids") is None:
            raw["gpu_ids"] = "all"
        for name, value in raw.items():
            if name not in tables and name not in KEPT and name != "mixed_precision":
                self.arguments[name] = value
        self.gpus()
        for table in filter(tables.__contains__, raw):
            entries = raw[table]
            for key, value in entries.items() if isinstance(entries, dict) else ():
                if not isinstance(key, str):
                    raise Refused(table, reason=f"the key `{key}` is no text")
                name = argument(self.schema, table, key)
                if name != "config_file":
                    self.arguments[name] = value
                    self.places[name] = (table, key)
        for name, value in self.fp8.items():
            table, _, key = arguments(self.schema)[name][0].partition(".")
            self.arguments[name] = value
            self.places[name] = (table, key)

    def gpus(self) -> None:
        """Check the GPUs of this machine."""
        ids = self.raw["gpu_ids"]
        if not isinstance(ids, str):
            reason = "`gpu_ids` has to be a string"
            raise Refused("gpu_ids", reason=reason, **_as_text(ids))

    def validate(self) -> None:
        """Check the number of processes, and what a run on the CPU divides."""
        if self.arguments["num_processes"] == -1 and self.command_is_known:
            hint = "set it to the number of GPUs, or add --num_processes to the command"
            reason = "neither the file nor the command has `num_processes`"
            raise Refused("num_processes", reason=reason, hint=hint)
        if self.arguments["use_cpu"] and self.number("num_processes") >= 1:
            self.number("num_machines")

    def number(self, name: str) -> Any:
        """Return an argument that is compared with numbers."""
        value = self.given(name)
        if isinstance(value, (int, float)):
            return value
        reason = f"`{name}` has to be a whole number"
        raise Refused(self.key(name), reason=reason, **_as_number(value))

    def given(self, name: str) -> Any:
        """Return an argument; 1 where the file leaves it to a command not known."""
        value = self.arguments.get(name)
        return 1 if value is None and not self.command_is_known else value

    def key(self, name: str) -> str:
        """Return the dotted key that sets an argument."""
        path = self.places.get(name)
        return ".".join(map(str, path)) if path else name

    def deepspeed(self) -> None:
        """Prepare the environment of a DeepSpeed run."""
        self.number("num_machines")
        self.precision()
        if since(self.schema, 1, 12):
            self.parallelism()

    def spawn(self) -> None:
        """Prepare the environment of one process per GPU."""
        if self.number("num_machines") > 1:
            self.number("num_processes")
        self.precision()
        self.dynamo()
        if self.raw["distributed_type"] == "FSDP":
            name = "fsdp_cpu_ram_efficient_loading"
            modules = "fsdp_sync_module_states"
            if self.arguments[name] and not self.arguments[modules]:
                reason = f"`{name}` needs `{modules}`"
                raise Refused(
                    self.key(modules), reason=reason, hint=f"set `{modules}: true`"
                )
        self.parallelism()

    def simple(self) -> None:
        """Prepare the environment of a run that starts one process itself."""
        if self.number("num_machines") > 1 and self.command_is_known:
            for name in ("main_process_ip", "main_process_port"):
                if self.arguments.get(name) is None:
                    reason = f"a run on several machines needs `{name}`"
                    raise Refused(name, reason=reason, hint=f"set `{name}`")
        if self.arguments["num_processes"] is not None:
            self.number("num_processes")
        cpu = str(False or self.arguments["use_cpu"])
        if since(self.schema, 1, 15) and cpu.lower() not in WORDS_OF_TRUTH:
            reason = f"`use_cpu: {cpu}` is neither true nor false"
            raise Refused("use_cpu", reason=reason, hint="write true or false")
        self.precision()
        self.dynamo()

    def precision(self) -> None:
        """Check the precision; with FP8 export the options of ``fp8_config``."""
        value = self.arguments.get("mixed_precision") or self.raw["mixed_precision"]
        value = "no" if value is None else value
        allowed = self.schema.classes["Launch"]["mixed_precision"].allowed
        if not isinstance(value, str) or value.lower() not in allowed:
            facts = {"value": value, "allowed": allowed}
            raise Refused(self.key("mixed_precision"), "value-not-allowed", **facts)
        self.arguments["mixed_precision"] = value.lower()
        if value.lower() == "fp8":
            self.override()

    def override(self) -> None:
        """Take the three switches of ``override_linear_precision`` apart."""
        name = "fp8_override_linear_precision"
        value = self.arguments[name]
        sized = isinstance(value, (list, str)) and len(value) >= 3
        if value is not None and not sized:
            reason = "`override_linear_precision` needs three values"
            hint = "write `override_linear_precision: [false, false, false]`"
            raise Refused(self.key(name), reason=reason, hint=hint)

    def dynamo(self) -> None:
        """Check the backend of torch.compile."""
        value = self.arguments["dynamo_backend"]
        if value is None:
            return
        allowed = self.schema.classes["Dynamo"]["dynamo_backend"].allowed
        if not isinstance(value, str) or value.upper() not in allowed:
            facts = {"value": value, "allowed": allowed}
            key = self.key("dynamo_backend")
            raise Refused(key, "value-not-allowed", **facts)

    def parallelism(self) -> None:
        """Compare the degrees of context and sequence parallelism with 1."""
        table = self.raw.get("parallelism_config")
        if table is None or table == {} or not since(self.schema, 1, 10):
            return
        names = ["parallelism_config_cp_size"]
        names += ["parallelism_config_sp_size"] * since(self.schema, 1, 12)
        for name in names:
            self.number(name)


def _as_text(value: Any) -> dict[str, Any]:
    """Return a hint, and for one number the text that was meant."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"hint": f'write it as text: "{value}"', "meant": str(value)}
    return {"hint": 'write it as text: "0,1"'}


def _as_number(value: Any) -> dict[str, Any]:
    """Return a hint, and the number that a text says."""
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) < 9
    ):
        return {"hint": f"write it without quotes: {value}", "meant": int(value)}
    return {"hint": ""}
