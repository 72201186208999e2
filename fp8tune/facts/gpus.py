"""The GPU table: figures with sources, looked up by the names that users write."""

# no future annotations: as strings, they double the import time of a NamedTuple
import os.path
import re
from functools import cache
from typing import Any, NamedTuple

from fp8tune.job import Unknown

_MODEL = r"([a-z]+)[ -]?([0-9]+)"
_SIZE_ALONE = r"[a-z]+[0-9]+.*-[0-9]+"


class Gpu(NamedTuple):
    """One GPU model; ``None`` for figures without a source."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    vendor: str = "nvidia"
    compute_capability: float | None = None
    fp8_matmul: bool | None = None
    memory_gib: float | None = None
    nominal_gib: float | None = None
    hbm_gb_per_s: float | None = None
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    bf16_measured_tflops: float | None = None
    fp8_measured_tflops: float | None = None
    sources: dict[str, str] = {}
    second_hand: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    @property
    def memory_limit_gib(self) -> float | None:
        """The most memory that torch can report for it [GiB]."""
        return self.memory_gib or self.nominal_gib


class UnknownGpu(Exception):
    """No GPU has that name; ``args`` are the name and a suggestion or ``""``."""


def parsed() -> dict[str, Any]:
    """The content of ``gpus.toml``."""
    import tomllib

    path = os.path.join(os.path.dirname(__file__), "gpus.toml")
    with open(path, "rb") as file:
        return tomllib.load(file)


@cache
def table() -> dict[str, Gpu]:
    """Every GPU, and every family of GPUs, by name and alias."""
    try:
        from fp8tune._index import GPUS
    except ImportError:
        data = parsed()
    else:
        data = GPUS
    gpus = {entry["name"]: Gpu(**entry) for entry in data["gpu"]}
    families = [_family(entry, gpus) for entry in data["family"]]
    return {
        _plain(name): gpu
        for gpu in (*gpus.values(), *families)
        for name in (gpu.name, *gpu.aliases)
    }


def members() -> list[Gpu]:
    """Every GPU once, without families."""
    found = {gpu.name: gpu for gpu in table().values() if not gpu.members}
    return list(found.values())


def _family(entry: dict[str, Any], gpus: dict[str, Gpu]) -> Gpu:
    """A GPU with the figures that all members of a family share."""
    members = [gpus[name] for name in entry["members"]]
    shared = {
        field: values[0]
        for field, *values in zip(Gpu._fields, *members, strict=True)
        if all(value == values[0] for value in values)
    }
    limits = [member.memory_limit_gib for member in members]
    own = {
        "name": entry["name"],
        "title": entry["title"],
        "nominal_gib": None if None in limits else max(filter(None, limits)),
        "members": tuple(entry["members"]),
    }
    return Gpu(**{**shared, **own, "aliases": tuple(entry.get("aliases", ()))})


def resolve(name: str) -> str:
    """The table's name for a GPU as a user writes it; raises ``UnknownGpu``."""
    plain = _plain(name)
    if plain not in table() and re.fullmatch(_SIZE_ALONE, plain):
        plain += "gb"
    gpu = table().get(plain)
    if gpu is not None:
        return gpu.name
    from fp8tune.suggest import closest

    near = closest(plain, _alike(plain))
    raise UnknownGpu(name, near if _is_typo(plain, near) else "")


def _alike(name: str) -> list[str]:
    """The names of the model that is probably meant, else all names."""
    model = re.match(_MODEL, name)
    same = [known for known in table() if _is_of(known, model[0] if model else "")]
    return same or list(table())


def _is_of(known: str, model: str) -> bool:
    return known == model or known.startswith(f"{model}-")


def _is_typo(name: str, near: str) -> bool:
    """Whether a name is a misspelt one, not another model's."""
    found = [re.match(_MODEL, word) for word in (name, near)]
    (letters, digits), (ours, number) = (m.groups() if m else ("", "") for m in found)
    other = digits != number and len(digits) == len(number)
    return not digits or (letters == ours and not other)


def find(name: str) -> Gpu:
    """The GPU of a resolved name; raises ``Unknown``."""
    gpu = table().get(_plain(name))
    if gpu is None:
        raise Unknown("gpu")
    return gpu


def is_another(device: str, name: str) -> bool:
    """Whether a device (its driver's name) is not the GPU of a resolved name."""
    try:
        return resolve(device) != name
    except UnknownGpu:
        return True


def largest(name: str) -> str:
    """The GPU of a family with the most memory, or "" if it is a single GPU."""
    sizes = {n: find(n).memory_limit_gib or 0.0 for n in find(name).members}
    return max(sizes, key=lambda name: sizes[name], default="")


def _plain(name: str) -> str:
    words = name.casefold().replace("_", " ").replace("-", " ").split()
    return "-".join(words[1:] if words[:1] in (["nvidia"], ["amd"]) else words)
