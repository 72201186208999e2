"""A search by real trials: what may change in a config, and where its trials run."""

from __future__ import annotations

from fp8tune.facts.gpus import UnknownGpu, find, resolve
from fp8tune.job import Job, Unknown
from fp8tune.runners import smi
from fp8tune.search.plan import CannotPlan, Config, Plan, check_allowed
from fp8tune.search.space import Knob, Space

MAX_BATCH = 256
DEVICES = ("cuda", "cpu")


def plan_for_trials(config: Config, allow: tuple[str, ...], device: str) -> Plan:
    """A search over micro-batch, AC, compile, and precision beside its bf16 twin.

    Micro-batches divide the sequences of a step, so that gradient accumulation keeps
    it as it is. A rehearsal on a CPU leaves compile as it is: there it takes a minute
    of a core and tells nothing.
    """
    try:
        rows = config.job["micro_batch"] * config.job["grad_accum"]
        precision = config.job["precision"]
    except Unknown as missing:
        raise CannotPlan(f"{config.path}: {missing} is not known") from None
    batches = [n for n in range(1, min(rows, MAX_BATCH) + 1) if rows % n == 0]
    frozen = {"precision", "compile"} if device == "cpu" else {"precision"}
    values = {
        "micro_batch": tuple(dict.fromkeys([*batches, config.job["micro_batch"]])),
        "ac": _allowed(config, "ac"),
        "compile": (False, True),
        "precision": tuple(dict.fromkeys([precision, "bf16"])),
    }
    keys = config.trainer.schema.job
    check_allowed([keys[role] for role in values], allow)
    knobs = [
        Knob(
            keys[role],
            tuple(some),
            role,
            role in frozen and not {role, keys[role]} & set(allow),
        )
        for role, some in values.items()
    ]
    given = tuple(knob.place(config.job[knob.key]) for knob in knobs)
    return Plan(config, Space(knobs), given)


def _allowed(config: Config, role: str) -> tuple[str, ...]:
    key = config.trainer.schema.job[role]
    spec = dict(config.trainer.schema.dotted_keys())[key]
    return tuple(spec.allowed)


def larger_gib(job: Job) -> float:
    """Memory of the job's GPU [GiB] where this machine's has less; else 0."""
    try:
        here, wanted = find(resolve(gpu_name())).memory_gib, job["gpu.memory_gib"]
    except (Unknown, UnknownGpu):
        return 0.0
    return float(wanted) if here and wanted > here else 0.0


def gpu_name() -> str:
    """The GPU's name as its driver tells it; ``""`` where there is none."""
    found = smi.ask("gpu", ("name",))
    return found[0].get("name", "") if found else ""
