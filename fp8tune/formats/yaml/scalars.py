"""What a trainer's loader makes of a scalar.

``pyyaml`` is ``yaml.safe_load``: YAML 1.1, where ``5e-5`` is a string, ``012`` is 10.
``omegaconf`` reads more numbers and no dates (``omegaconf/_utils.py`` of 2.3.0, its
``get_yaml_loader``; unchanged in 2.4.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import yaml

TAG = "tag:yaml.org,2002:"
STRING, MERGE = f"{TAG}str", f"{TAG}merge"

_OMEGACONF_FLOAT = re.compile(
    r"""[-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*[eE][-+]?[0-9]+
    |\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN)""",
    re.VERBOSE,
)
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_READERS: dict[str, Callable[[Any], Any]] = {
    f"{TAG}null": _CONSTRUCTOR.construct_yaml_null,
    f"{TAG}bool": _CONSTRUCTOR.construct_yaml_bool,
    f"{TAG}int": _CONSTRUCTOR.construct_yaml_int,
    f"{TAG}float": _CONSTRUCTOR.construct_yaml_float,
    f"{TAG}timestamp": _CONSTRUCTOR.construct_yaml_timestamp,
}
"""The scalars of one value each; what PyYAML makes of them is plain arithmetic."""

LOADERS = ("pyyaml", "omegaconf")
"""What reads scalars; ``+`` and a name of ``references.FILLED`` may follow."""


class OddTag(Exception):
    """A tag that ``safe_load`` refuses, or of a type that no config has."""


def read_scalar(node: Any, loader: str, *, tagged: bool) -> Any:
    """Return the value of a scalar; ``tagged`` says that a tag is written before it.

    Raises ``ValueError`` as the loader does, ``OddTag``.
    """
    tag = node.tag
    if loader == "omegaconf" and not (node.style or tagged):
        tag = _omegaconf_tag(tag, node.value)
    return node.value if tag == STRING else _read(tag, node.value)


def resolved(text: str, loader: str) -> Any:
    """Return what a loader makes of a plain scalar; raises as ``read_scalar``."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    return read_scalar(yaml.ScalarNode(tag, text), loader, tagged=False)


_RESOLVER = yaml.resolver.Resolver()


def _omegaconf_tag(tag: str, value: str) -> str:
    """Its float is asked last, after PyYAML's own types but the dates."""
    if tag in (STRING, f"{TAG}timestamp"):
        return f"{TAG}float" if _OMEGACONF_FLOAT.fullmatch(value) else STRING
    return tag


@lru_cache(4096)
def _read(tag: str, value: str) -> Any:
    reader = _READERS.get(tag)
    if reader is not None:
        try:
            return reader(yaml.ScalarNode(tag, value))
        except (
            KeyError,
            IndexError,
            AttributeError,
        ):  # !!bool 5, !!int "", a false date
            raise ValueError(f"{value!r} is no {tag.removeprefix(TAG)}") from None
    raise OddTag(tag)
