"""The fix of a finding: its rule's ``[[fix]]`` as edits of one file."""

# no future annotations: as strings, they double the import time of a NamedTuple
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard

from fp8tune.config.reader import Config
from fp8tune.facts.memory.verdict import TOO_MUCH
from fp8tune.formats.document import ConfigDocument, InvalidText, Path
from fp8tune.formats.edits import CannotEdit, Edit, apply, in_order
from fp8tune.job import Job, Unknown
from fp8tune.lint.diagnostic import Change, Fix, Region
from fp8tune.lint.repair import Repair
from fp8tune.trainers.faults import Fault, Loaded
from fp8tune.trainers.trainer import DEGREES

ABOUT_SIZE = ("memory", "slow")
"""Categories whose fixes exist for memory and speed alone."""


class Offer(NamedTuple):
    """The fix of a finding, if any, and why another is not offered.

    ``withheld``: the changed run would not fit the GPU. ``kept``: the command line sets
    the value.
    """

    fix: Fix | None = None
    withheld: str = ""
    kept: str = ""


class Fixable(Protocol):
    """What has fixes: a rule, or a cause of failed runs."""

    @property
    def category(self) -> str:
        """What it means for the run, by the names of the rules' folders."""

    @property
    def fixes(self) -> Sequence[Repair]:
        """The compiled fixes; the first that applies is taken."""


class Overridden(Exception):
    """The value that a fix would change is set by this command-line argument."""


def find_fix(
    rule: Fixable, scope: Any, config: Config, fault: Fault | None = None
) -> Offer:
    """Return the first fix that applies to this finding, can be written, and fits.

    A fix that changes the run is not offered if the changed run needs more memory than
    the GPU has, unless that is already so and the fix is not about memory, nor makes
    the run faster for more of it. No fix changes a value that the command line
    overrides.
    """
    kept, job, document = "", config.job, config.document
    for repair in rule.fixes:
        maker = _Maker(job, fault, document, config.loaded)
        try:
            if repair.when is not None and not repair.when.evaluate(scope):
                continue
            edits = in_order(maker.edits(repair, scope))
            title, changes = repair.title.fill(scope), repair.changes.fill(scope)
        except Overridden as error:
            kept = f"change `{error}` yourself: a fix edits only the file"
            continue
        except (Unknown, CannotEdit):
            continue
        if not edits:
            continue
        if repair.safety != "safe" and "gpu" in job:
            after = _after(config, edits)
            if _is_too_much(after) and (_fits(job) or not _helps(rule, job, after)):
                words = "no fix is offered, because then the run needs"
                needs = after.find("memory.needs") or "more memory than the GPU has"
                return Offer(withheld=f"{words} {needs}: {title}")
        placed = tuple(_change(document, edit) for edit in edits)
        stopped = fault is not None and rule.category == "rejected"
        return Offer(Fix(repair.safety, title, changes, placed, stopped))
    return Offer(kept=kept)


def _after(config: Config, edits: list[Edit]) -> Job | None:
    """Return the job after some edits; ``None`` where it is not known."""
    target, document = config.job.target, config.document
    if target.world_size_origin == DEGREES:
        target = target._replace(world_size=0)
    try:
        document = document.read(apply(document.text, edits))
        return config.having(document=document, gpus=target).job
    except (Unknown, InvalidText, CannotEdit):
        return None


def _is_too_much(job: Job | None) -> TypeGuard[Job]:
    """Return whether a run is known to need too much memory."""
    try:
        return job is not None and job["memory.fit"] in TOO_MUCH
    except Unknown:
        return False


def _fits(job: Job) -> bool:
    """Return whether a run is known not to need too much memory."""
    return job.find("memory.fit") is not None and not _is_too_much(job)


def _helps(rule: Fixable, job: Job, after: Job) -> bool:
    """Return whether a fix is worth it though the run needs too much memory after it.

    It is about something else, or makes a slow run faster with less memory.
    """
    if rule.category not in ABOUT_SIZE:
        return True
    before = job.find("memory.peak_gib")
    peak = after.find("memory.peak_gib")
    less = before is not None and peak is not None and peak < before
    return rule.category == "slow" and less


def _change(document: ConfigDocument, edit: Edit) -> Change:
    start = document.lines.position(max(0, edit.start))
    return Change(*edit, Region(*start, *document.lines.position(edit.end)))


class _Maker:
    def __init__(
        self, job: Job, fault: Fault | None, document: ConfigDocument, loaded: Loaded
    ) -> None:
        self.job = job
        self.fault = fault
        self.document = document
        self.loaded = loaded

    def edits(self, repair: Repair, scope: Any) -> Iterator[Edit]:
        """Yield the edits of one repair, by default those of the fault itself."""
        document = self.document
        values: dict[Path, Any] = {}
        for name, value in repair.set.items():
            values |= self._set(name, value.evaluate(scope))
        yield from document.set_values(values)
        for name, value in repair.rename.items():
            new = str(value.evaluate(scope))
            yield from document.rename_key(self._path(name), new)
        for name, value in repair.move.items():
            to = tuple(str(value.evaluate(scope)).split("."))
            yield from document.move_key(self._path(name), to)
        for name, value in repair.header.items():
            yield document.add_header(self._path(name), str(value.evaluate(scope)))
        for path in self._written(repair.remove):
            yield document.remove_key(path)
        if repair.own and self.fault is not None:
            yield from self.fault.edits

    def _set(self, name: str, value: Any) -> dict[Path, Any]:
        """Return the keys that give a field a value; several where its trainer says."""
        setting = self.job.words.settings.get(name)
        if setting is None:
            return {self._path(name): value}
        return {self._path(key): one for key, one in setting(self.job, value).items()}

    def _path(self, name: str) -> Path:
        """Return the one key that sets ``name``; raises ``CannotEdit``."""
        if name == "fault" and self.fault is not None:
            if self.fault.argument:
                raise Overridden(self.fault.argument.text)
            return self.fault.path
        job = self.job
        key = job.keys_of(name)[0]
        alone = name not in job.words.computed or (
            key in job.written and job[name] == job[key]
        )
        if key not in job.words.keys or not alone:
            raise CannotEdit(f"no key says {name} by itself")
        path = tuple(key.split("."))
        argument = self.loaded.argument(path)
        if argument:
            raise Overridden(argument.text)
        return path

    def _written(self, names: Iterable[str]) -> Iterator[Path]:
        """Yield the paths of the names that are in the file.

        A key that another version of the trainer has is in none of this one's files.
        """
        for name in names:
            if "." in name and name not in self.job.words.keys:
                continue
            path = self._path(name)
            if path in self.document.spans.keys:
                yield path
