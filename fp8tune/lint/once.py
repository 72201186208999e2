"""Check a config as if its refused keys and values were what was meant.

The other rules know nothing of a value that the trainer refuses, or of a misspelt key.
Where a fix writes the only thing that can have been meant, the text with these fixes is
checked too. Findings that are new there are findings of the file, with a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from fp8tune.config.settings import SEVERITIES
from fp8tune.formats.document import ConfigDocument, Span, Unreadable
from fp8tune.formats.edits import CannotEdit, Edit, apply, in_order
from fp8tune.job import Words
from fp8tune.lint.diagnostic import Change, Diagnostic, Region
from fp8tune.lint.rewrite import apart
from fp8tune.trainers.faults import Fault
from fp8tune.trainers.hints import is_clear
from fp8tune.words import shown

MAX_NAMED = 3
"""Most fixes that a finding names."""


def noted(found: Diagnostic) -> Diagnostic:
    """Return a finding whose message says what has to be fixed before it holds."""
    words = [*found.once[:MAX_NAMED]]
    more = len(found.once) - MAX_NAMED
    words += [f"{more} more {'is' if more == 1 else 'are'} fixed"] * (more > 0)
    once = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    return found._replace(message=f"{found.message} (once {once})")


class Meant(NamedTuple):
    """What was meant: the key that then has a value, and the fix in words."""

    key: str
    words: str


class Corrected:
    """A text in which stands what was meant, and the way back from it.

    ``meant`` has the findings whose fixes write what was meant, with their faults.
    ``overrides`` are then the arguments as they were meant. Raises ``CannotEdit`` and
    ``InvalidText`` if the text cannot be read after the fixes.
    """

    def __init__(
        self,
        document: ConfigDocument,
        overrides: Iterable[str],
        meant: Iterable[tuple[Diagnostic, Fault]],
    ) -> None:
        clear = [(found, fault) for found, fault in meant if _is_clear(fault.facts)]
        typed = {f.argument.text: (d, f) for d, f in clear if f.argument and _typed(f)}
        self.overrides = tuple(
            _typed(typed[word][1]) if word in typed else word for word in overrides
        )
        fixes = {d.region: _meant(f) for d, f in clear if not f.argument}
        by_key = {fixes[d.region].key: d for d, f in reversed(clear) if not f.argument}
        chosen = apart(sorted(by_key.values(), key=attrgetter("region")))
        if not chosen and self.overrides == overrides:
            raise CannotEdit("nothing is clear")
        self.meant = [fixes[found.region] for found in chosen]
        self.meant += [_meant(fault) for _, fault in typed.values()]
        every = [*chosen, *(found for found, _ in typed.values())]
        self.severity = min((one.severity for one in every), key=SEVERITIES.index)
        places = {
            Edit(edit.start, edit.end, edit.text): found.region
            for found in chosen
            for edit in (found.fix.edits if found.fix else ())
        }
        self.edits = [(edit, places[edit]) for edit in in_order(places)]
        self.in_place = all(len(found.fix.edits) == 1 for found in chosen if found.fix)
        self.before = document.lines
        try:
            self.document = document.read(apply(document.text, places))
        except Unreadable:
            raise CannotEdit("the text is refused after it") from None

    def back(self, found: Diagnostic, keys: Set[str]) -> Diagnostic:
        """Return a finding of the corrected text as one of the text before.

        It holds once the fixes of ``keys`` are made, on which its rule rests. If there
        are none, and it is not known what it rests on, all of them. It is no more
        severe than what these fix: until then the run may work. Its own fix can be made
        together with fixes that replace a text in place, not with moves.
        """
        fixes = [one.words for one in self.meant if _concerns(one.key, keys)]
        if not (fixes or found.once):
            fixes = [one.words for one in self.meant]
        labels = (x._replace(region=self._region(x.region)) for x in found.labels)
        changes = [self._change(edit) for edit in found.fix.edits] if found.fix else []
        fits = [change for change in changes if change]
        fix = found.fix if self.in_place and len(fits) == len(changes) else None
        return found._replace(
            severity=max(found.severity, self.severity, key=SEVERITIES.index),
            once=(*fixes, *found.once),
            labels=tuple(labels),
            fix=fix and fix._replace(edits=tuple(fits)),
        )

    def _region(self, region: Region) -> Region:
        """Return where a region was; one of a fix is the place of what it fixes."""
        lines = self.document.lines
        start = lines.offset(region.line) + region.column - 1
        end = lines.offset(region.end_line) + region.end_column - 1
        for (first, last), (_, place) in zip(self._spans(), self.edits, strict=True):
            if first <= start and end <= last and (start, end) != (last, last):
                return place
        return self._placed(self._old(start), self._old(end))

    def _change(self, change: Change) -> Change | None:
        """Return a change for the text before; ``None`` for one within a fix."""
        for first, last in self._spans():
            apart = change.end <= first or last <= change.start
            whole = change.start <= first and last <= change.end
            if not (apart or whole):
                return None
        start, end = self._old(change.start), self._old(change.end)
        return Change(start, end, change.text, self._placed(start, end))

    def _spans(self) -> list[Span]:
        """Return where the texts of the fixes stand in the corrected text."""
        spans, moved = [], 0
        for edit, _ in self.edits:
            start = edit.start + moved
            spans.append((start, start + len(edit.text)))
            moved += len(edit.text) - (edit.end - edit.start)
        return spans

    def _old(self, offset: int) -> int:
        """Return the offset in the text before."""
        moved = 0
        for (start, end), (edit, _) in zip(self._spans(), self.edits, strict=True):
            if offset <= start:
                break
            if offset < end:
                return edit.end
            moved = end - edit.end
        return offset - moved

    def _placed(self, start: int, end: int) -> Region:
        places = map(self.before.position, (start, end))
        return Region(*chain.from_iterable(places))


def _is_clear(facts: Mapping[str, Any]) -> bool:
    """Return whether only one key or value can have been meant."""
    if "meant" not in facts:  # but where another release has it
        return True
    if "clear" in facts or facts.get("sure"):
        return bool(facts.get("sure") or facts["clear"])
    word, meant, allowed = facts.get("value"), facts["meant"], facts.get("allowed")
    if not (isinstance(word, str) and isinstance(meant, str) and allowed):
        return True  # text for a number
    return is_clear(word, meant, map(str, allowed))


def _typed(fault: Fault) -> str:
    """Return an argument with what was meant, ``""`` where it is one part of it."""
    if not fault.argument:
        return ""
    (_, end), text = fault.argument.key, fault.argument.text
    meant, value = fault.facts["meant"], text[end + 1 :]
    if isinstance(meant, Words):
        return text[: end - len(str(fault.path[-1]))] + meant + text[end:]
    same = value == str(fault.facts.get("value"))
    return f"{text[: end + 1]}{meant}" if same else ""


def _concerns(meant: str, keys: Set[str]) -> bool:
    """Return whether a key is one of these, or the table of one."""
    return any(f"{key}.".startswith(f"{meant}.") for key in keys)


def _meant(fault: Fault) -> Meant:
    """Return what the fix of a fault makes of its key."""
    key = str(fault.facts["key"])
    if "meant" not in fault.facts:
        home = str(fault.facts["home"])
        return Meant(home, f"`{key}` is `{home}`")
    meant = fault.facts["meant"]
    if not isinstance(meant, Words):
        return Meant(key.partition("[")[0], f"`{key}` is {shown(meant)}")
    table, dot, _ = key.rpartition(".")
    return Meant(f"{table}{dot}{meant}", f"`{key}` is `{meant}`")
