"""Which of the user's comments still speak of a value that the search has changed.

Lint finds the sentences that are surely wrong. These are looser, and only pointed out:
a comment behind a changed key, or one that names its setting, with the old value in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fp8tune.search.writeback import MARK
from fp8tune.toml.document import comments, parse
from fp8tune.trials.space import shown

NAMES = {
    "micro_batch": r"(?:micro[ _-]?)?batch(?:es|[ _-]?size)?",
    "grad_accum": r"(?:gradient )?accum\w*(?: steps)?",
}
"""What people call a setting; its key is one of its names besides."""
COUNTED = {
    "micro_batch": r"sequences?|samples?",
    "grad_accum": r"(?:gradient )?accum\w*|micro[ -]?batches",
}
"""What a setting counts, behind the number."""
MODES = {
    ("compile", True): r"\bcompiled\b|\btorch\.compile\b",
    ("compile", False): r"\beager\b|\bnot compiled\b|\b(?:no|without) compile\b",
}
"""Words for a value that has no number."""
BETWEEN = r"\s*(?:=|:|is|of)?\s*"


class ChangedKey(NamedTuple):
    """A key whose value the search has changed, and the job's field that it sets."""

    key: str
    role: str
    was: Any
    now: Any


def stale_comments(
    path: str, after: bytes, changes: Sequence[ChangedKey]
) -> Iterator[str]:
    """Yield one line for each comment of the tuned config that may no longer hold."""
    document = parse(after)
    lines = {
        change.key: document.lines.position(keys[0])[0]
        for change in changes
        if (keys := document.spans.keys.get(tuple(change.key.split("."))))
    }
    for start, end in comments(document.text):
        text, line = document.text[start:end], document.lines.position(start)[0]
        if text.startswith(MARK) or "fp8tune:" in text:
            continue
        for key, role, was, now in changes:
            own = lines.get(key) == line and _has(text, was)
            if own or _speaks_of(text, key, role, was):
                change = f"`{key}` was {shown(was)}, is {shown(now)}"
                yield f"{path}:{line}: the comment may no longer hold: {change}"
                break


def _speaks_of(text: str, key: str, role: str, was: Any) -> bool:
    """Whether a comment names a setting with the value that it had."""
    if type(was) is bool:
        return bool(re.search(MODES.get((role, was), "(?!)"), text, re.IGNORECASE))
    if type(was) is not int:
        return False
    name = re.escape(key.rpartition(".")[2])
    forms = [rf"\b(?:{NAMES.get(role, '(?!)')}|{name}){BETWEEN}{was}\b"]
    if role in COUNTED:
        forms.append(rf"(?<![\d.,]){was} (?:{COUNTED[role]})\b")
    return any(re.search(form, text, re.IGNORECASE) for form in forms)


def _has(text: str, was: Any) -> bool:
    """Whether a comment has a value in it as a word of its own."""
    return bool(re.search(rf"(?<![\w.,]){re.escape(shown(was))}(?![\w]|[.,]\d)", text))
