"""The values that Axolotl's checks see, and what a check is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Values(dict[str, Any]):
    """Keys and values; an absent key is null."""

    def __missing__(self, key: str) -> None:
        return None

    def any(self, *names: str) -> bool:
        """Whether one of the keys has a value that Python takes for true."""
        return any(self[name] for name in names)

    def table(self, name: str) -> Values:
        """The table of a key, empty if it is null."""
        return Values(self[name] or {})


Refused = Callable[[Values, Values], Any]


class Check(NamedTuple):
    """Keys to blame, the reason, and when their values are refused; maybe what to do.

    ``only`` is the version that checks it, if not all do.
    """

    keys: str
    reason: str
    refused: Refused
    hint: str = ""
    only: str = ""


def either(one: str, other: str) -> Check:
    """Return the check of two keys that exclude each other."""
    reason = f"`{one}` and `{other}` exclude each other"
    return Check(f"{one} {other}", reason, lambda f, _: f[one] and f[other])


def fsdp_version(f: Values) -> Any:
    """The version of FSDP that validators of optimizers see."""
    inner = (f["fsdp_config"] or {}).get("fsdp_version", 1)
    return inner if f["fsdp_version"] is None else f["fsdp_version"]


def hoisted_version(f: Values) -> Any:
    """The version of FSDP after Axolotl has taken it from ``fsdp_config``."""
    inner = f.table("fsdp_config")
    found = f["fsdp_version"] or inner["version"] or inner["fsdp_version"]
    return found or (1 if f["fsdp_config"] else None)


def fsdp_option(f: Values, name: str) -> Any:
    """An option of FSDP, with or without its deprecated prefix."""
    inner = f.table("fsdp_config")
    return inner[f"fsdp_{name}"] if f"fsdp_{name}" in inner else inner[name]
