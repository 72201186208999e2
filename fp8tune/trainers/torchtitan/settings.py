"""How the fields of a torchtitan job are set that follow from several keys.

Each function has the name of a field and returns the keys to write, with their values.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Unknown
from fp8tune.trainers.torchtitan.gemms import NAMES
from fp8tune.trainers.torchtitan.loader import RECIPES
from fp8tune.trainers.torchtitan.precision import AUTO, LINEAR
from fp8tune.trainers.torchtitan.releases import LENIENT

HEAD = "output"
"""torchtitan's name of the output head."""
HUGGING_FACE = NAMES | {"lm_head": NAMES["head"]}
"""torchtitan's names of linears by those of Hugging Face models."""


def precision(job: Job, value: str) -> dict[str, Any]:
    """Add the converter of linears for fp8, and remove it for bf16."""
    if value not in ("bf16", "fp8"):
        raise Unknown("precision")
    mine = LINEAR[job["trainer_version"] == LENIENT]
    others = [name for name in job["model.converters"] if name not in LINEAR]
    return {"model.converters": [*others, mine] if value == "fp8" else others}


def grad_accum(job: Job, value: int) -> dict[str, Any]:
    """The global batch, which follows from -1 where nothing is accumulated."""
    key = "training.global_batch_size"
    if value == 1 and job[key] < 0:
        return {}
    return {key: value * job["micro_batch"] * job["dp_ranks"]}


def ac(_: Job, value: str) -> dict[str, Any]:
    """Mode and option; ``op`` and ``every-2`` are kinds of selective."""
    mode, option = "activation_checkpoint.mode", "selective_ac_option"
    if value in ("none", "full", "memory_budget"):
        return {mode: value}
    text = value.removeprefix("every-")
    return {mode: "selective", f"activation_checkpoint.{option}": text}


def compile(job: Job, value: bool) -> dict[str, Any]:  # noqa: A001
    """One key in 0.1.0; later the components must also list the model."""
    if job["trainer_version"] == LENIENT:
        return {"training.compile": value}
    listed = job["compile.components"]
    if not value or (isinstance(listed, list) and "model" in listed):
        return {"compile.enable": value}
    components = ["model", *(listed if isinstance(listed, list) else ())]
    return {"compile.enable": value, "compile.components": components}


def fp8_recipe(job: Job, value: str) -> dict[str, Any]:
    """The name of the recipe; none for tensorwise, with which alone weights gather."""
    if value not in RECIPES:
        raise Unknown("fp8_recipe")
    if value == (job["recipe_given"] or "tensorwise"):
        return {}
    name = None if value == "tensorwise" else value
    return {f"{_float8(job)}.recipe_name": name}


def fp8_all_gather(job: Job, value: bool) -> dict[str, Any]:
    """FSDP's all-gather in FP8, with the scales of all weights at once."""
    return all_gather_asked(job, value) | precompute_asked(job, value)


def all_gather_asked(job: Job, value: bool) -> dict[str, Any]:
    """One key of the table of FP8 linears."""
    return {f"{_float8(job)}.enable_fsdp_float8_all_gather": value}


def precompute_asked(job: Job, value: bool) -> dict[str, Any]:
    """One key of the table of FP8 linears."""
    return {f"{_float8(job)}.precompute_float8_dynamic_scale_for_fsdp": value}


def auto_filter(job: Job, value: bool) -> dict[str, Any]:
    """The name of torchao's own filter among the filters; 0.1.0 does not know it."""
    if job["trainer_version"] == LENIENT:
        raise Unknown("auto_filter")
    others = [name for name in job["fp8_filters"] if name != AUTO]
    return {f"{_float8(job)}.filter_fqns": [*others, AUTO] if value else others}


def fp8_converts_head(job: Job, value: bool) -> dict[str, Any]:
    """A filter that is in the head's name, and no other linear's."""
    filters = [name for name in job["fp8_filters"] if name != HEAD]
    keys = {f"{_float8(job)}.filter_fqns": filters if value else [*filters, HEAD]}
    if job.with_values(keys)["fp8_converts_head"] is not value:
        raise Unknown("fp8_converts_head")
    return keys


def mx_odd_linear(job: Job, _: str) -> dict[str, Any]:
    """The names of such linears as filters."""
    names = job["mx_odd_names"].split(", ")
    return {job["mx_filter_key"]: [*job["mx_filters"], *names]}


def idle_filters(job: Job, _: str) -> dict[str, Any]:
    """Torchtitan's names for filters that are names of Hugging Face models."""
    idle = job["idle_filters"].split(", ")
    meant = {name: HUGGING_FACE.get(name.rpartition(".")[2]) for name in idle}
    if not all(meant.values()):
        raise Unknown("idle_filters")
    filters = [meant.get(name, name) for name in job["fp8_filters"]]
    return {f"{_float8(job)}.filter_fqns": list(dict.fromkeys(filters))}


def _float8(job: Job) -> str:
    """The table of FP8 linears, which has the converter's name."""
    return LINEAR[job["trainer_version"] == LENIENT]
