"""Read the variables that a script sets for a program that it starts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fp8tune.formats.bash.values import Word
from fp8tune.formats.document import HOLE

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_RAY = re.compile(r"--runtime-env-json(?:=(.*))?", re.DOTALL)


def environment(launcher: Sequence[Word], given: Mapping[str, Word]) -> dict[str, str]:
    """Return the variables of a program whose values are certain.

    ``given`` are those that the script exports; ``launcher`` are the words before the
    program, in which ``env NAME=VALUE`` and Ray's ``--runtime-env-json`` set more.
    """
    values = dict(given)
    for word, following in pairwise([*launcher, Word("")]):
        if (found := _ASSIGNED.fullmatch(word.text)) and not word.holes:
            values[found[1]] = Word(found[2])
        elif found := _RAY.fullmatch(word.text):
            text = following.text if found[1] is None else found[1]
            values |= {name: Word(value) for name, value in _of_ray(text).items()}
    return {name: word.text for name, word in values.items() if not word.holes}


def _of_ray(text: str) -> dict[str, str]:
    """Return the variables of Ray's runtime environment."""
    try:
        variables: Any = json.loads(text)["env_vars"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
    if not isinstance(variables, dict):
        return {}
    texts = {name: str(value) for name, value in variables.items()}
    return {name: text for name, text in texts.items() if HOLE not in text}
