"""Apply ignore comments to findings, and check the comments.

``tp = 3  # fp8tune: ignore[rule-name] until=2027-01-31 -- reason``, on the line of any
span of the finding, or on its own line above. There is no form for all rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp8tune.config.mark import Ignore
from fp8tune.formats.document import ConfigDocument, Span
from fp8tune.job import Words
from fp8tune.lint.diagnostic import Diagnostic, Suppressed
from fp8tune.suggest import closest
from fp8tune.trainers.faults import Fault


class Sieve:
    """Suppresses findings, and reports comments that suppressed nothing."""

    def __init__(
        self, document: ConfigDocument, ignores: Sequence[Ignore], today: str
    ) -> None:
        self.text = document.text
        self.ignores = [ignore for ignore in ignores if not ignore.problem]
        self.broken = [ignore for ignore in ignores if ignore.problem]
        self.today = today
        self.used: set[tuple[Span, str]] = set()
        self.held: list[Suppressed] = []

    def keeps(self, found: Diagnostic) -> bool:
        """Return whether no valid comment silences the finding."""
        lines = {label.region.line for label in found.labels}
        silent: Ignore | None = None
        for ignore in self.ignores:
            if lines.isdisjoint(ignore.lines):
                continue
            if found.rule in ignore.names:
                self.used.add((ignore.span, found.rule))
                silent = silent if ignore.expired(self.today) else ignore
        if silent is not None:
            self.held.append(Suppressed(found, "inSource", silent.reason))
        return silent is None

    def faults(
        self, known: Mapping[str, str], judged: frozenset[str]
    ) -> Iterator[Fault]:
        """Yield what is wrong with the comments.

        ``known`` are the names of all rules with their codes. ``judged`` are those that
        were checked in this file: if they found nothing, there is nothing to ignore.
        """
        for ignore in self.broken:
            yield _bad(ignore)
        for ignore in self.ignores:
            for index, name in enumerate(ignore.names):
                if name not in known:
                    yield self._unknown(ignore, index, known)
                elif kind := self._problem(ignore, name, judged):
                    facts = {"name": name, "until": Words(ignore.until)}
                    yield self._fault(kind, ignore, index, facts)

    def _unknown(self, ignore: Ignore, index: int, known: Mapping[str, str]) -> Fault:
        """Return the fault of an unknown name, with names that may have been meant."""
        name = ignore.names[index]
        facts = {"name": name, "until": Words(ignore.until), **_meant(name, known)}
        return self._fault("unknown-ignore", ignore, index, facts)

    def _fault(
        self, kind: str, ignore: Ignore, index: int, facts: dict[str, Any]
    ) -> Fault:
        from fp8tune.lint.ignores import renamed, without

        meant = str(facts.get("meant", ""))
        if meant and meant not in ignore.names:
            edit = renamed(ignore, index, meant)
        else:
            edit = without(self.text, ignore, index)
        return Fault(kind, (), facts, ignore.span, (edit,))

    def _problem(self, ignore: Ignore, name: str, judged: frozenset[str]) -> str:
        if (ignore.span, name) not in self.used:
            return "unused-ignore" if name in judged else ""
        return "expired-ignore" if ignore.expired(self.today) else ""


def _bad(ignore: Ignore) -> Fault:
    """Return the fault of a comment without effect, with its correct beginning."""
    facts: dict[str, Any] = {"reason": ignore.problem}
    facts["hint"] = "name each rule: an ignore comment cannot cover all rules"
    wrong, start = ignore.mistake, ignore.span[0]
    if wrong is None or not wrong.meant:
        return Fault("bad-ignore", (), facts, ignore.span)
    from fp8tune.formats.edits import Edit

    facts |= {"hint": f"write `{wrong.meant}`", "meant": Words(wrong.meant)}
    edit = Edit(start, start + wrong.end, wrong.beginning)
    return Fault("bad-ignore", (), facts, ignore.span, (edit,))


def _meant(name: str, known: Mapping[str, str]) -> dict[str, Any]:
    """Return facts for help and fix: the rule that a name means or resembles."""
    from fp8tune.trainers.hints import same_word

    code = name.upper()
    coded = next((rule for rule in known if known[rule] == code), "")
    if coded:
        hint = f"{code} is the code of `{coded}`: write the name"
        return {"hint": hint, "meant": Words(coded), "sure": True}
    near = closest(name, known)
    if not near:
        return {"hint": ""}
    sure = same_word(name, near)
    return {"hint": f"did you mean `{near}`?", "meant": Words(near), "sure": sure}
