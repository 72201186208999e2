"""Settings in a config that a log prints as Python or JSON would."""

from __future__ import annotations

import re

MOST = 2000
"""Settings that are read of a printed config."""

DEPTH = 8
"""Tables within tables of it."""

_TOKEN = re.compile(
    r"""<[\w.]{1,99}: (?P<enum>[^<>]{0,99})>|(?P<open>[\w.]{0,99}[({])"""
    r"""|(?P<close>[)}])|(?P<list>\[[^\[\]]{0,999}\])|(?P<end>,)"""
    r"""|(?P<name>\w{1,99})=|'(?P<key>[^']{0,99})':|"(?P<json>[^"]{0,99})":"""
    r"""|'(?P<text>[^']{0,999})'|"(?P<double>[^"]{0,999})\""""
    r"""|(?P<plain>[^\s,(){}\[\]'"=:]+)"""
)


def printed(text: str) -> dict[str, str]:
    """Return the values of a printed config, by their names with dots.

    ``text`` is the repr of a dataclass, of a dict, or JSON:
    ``Job(train=Train(steps=3))`` has ``train.steps``. Lists are values. A config that
    is cut off gives what was printed of it.
    """
    values: dict[str, str] = {}
    path: list[str] = []
    name = ""
    for token in _TOKEN.finditer(text):
        kind, found = token.lastgroup, token[token.lastgroup or 0]
        if kind in ("name", "key", "json"):
            name = found
        elif kind == "open":
            path.append(name)
            name = ""
        elif kind == "close":
            if path:
                path.pop()
            if not path:
                break
        elif kind == "end":
            name = ""
        elif name and len(path) <= DEPTH and len(values) < MOST:
            key = ".".join([*filter(None, path), name])
            values.setdefault(key, found.strip("'"))
    return values
