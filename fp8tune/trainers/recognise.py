"""Whose config a file is, by the tables and keys that a trainer knows."""

# no future annotations: as text, those of a NamedTuple double what it costs to import
import re
from collections.abc import Iterable, Iterator, Set
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from fp8tune.formats import ABOUT_SCRIPT, TITLES
from fp8tune.formats.document import ConfigDocument
from fp8tune.suggest import closest
from fp8tune.trainers.about import About, read_toml, trainers
from fp8tune.trainers.trainer import Trainer, trainer

EXPLICIT, FOUND = 3, 2
"""One in so many keys or tables must be a trainer's: of a file that the user named,
and of another."""

_TABLES = {
    "toml": r"(?m)^[ \t]*\[+[ \t]*([A-Za-z_-]+)",
    "yaml": r"""(?m)^["']?([A-Za-z_][\w-]*)["']?[ \t]*:""",
    "json": r"""(?<![\w-])([A-Za-z_][\w-]*)["']?[ \t]*:""",
    "bash": r"(?<!\S)--([a-z][\w-]*)",
}
"""What may be the name of a table or a key at the root, by the format."""

_BLANK = "[A-Z][A-Z0-9]*_[A-Z0-9_]*,"
"""A word without quotes in Hjson, up to the end of its line, for ``sed`` to replace."""

NO_FLAGS = "it starts no trainer that fp8tune knows"
"""What a script is that sets no flag of a trainer."""


class Kind(NamedTuple):
    """What a file is: ``trainer`` is empty when it is no train config.

    Else it names the version too, as ``torchtitan==0.2.2``, where there are several.
    """

    trainer: str
    fragment: bool
    description: str


@cache
def foreign() -> dict[str, set[str]]:
    """Kinds of files that are no trainer's, by their top-level tables."""
    try:
        from fp8tune._index import FOREIGN
    except ImportError:  # in a checkout
        return {kind: set(tables) for kind, tables in foreign_parsed().items()}
    return {kind: set(tables) for kind, tables in FOREIGN.items()}


def foreign_parsed() -> dict[str, list[str]]:
    """What ``foreign.toml`` says, and each trainer of its files for other programs."""
    found: dict[str, list[str]] = read_toml("foreign.toml")
    for about in trainers().values():
        found |= about.others
    return found


def may_be_config(text: str, *, explicit: bool, form: str = "toml") -> bool:
    """Whether a text that does not parse, or is not parsed, may be a train config.

    A file that the user named may be one unless it has tables of another kind of
    file and none of a trainer; another file needs two of a trainer's tables.
    """
    names = set(re.findall(_TABLES[form], text))
    if form == "bash":
        names = {name.replace("-", "_") for name in names}
    readers = (about for about in trainers().values() if form in about.formats)
    known = (
        keys
        for about in readers
        for keys in (about.tables * _marked(names, about, form), *_part_keys(about))
    )
    mine = max((len(names.intersection(keys)) for keys in known), default=0)
    return mine > 1 or (
        explicit
        and (mine > 0 or not any(names & tables for tables in foreign().values()))
    )


def recognise(
    values: dict[str, Any],
    *,
    explicit: bool = False,
    only: str = "",
    form: str = "toml",
) -> Kind:
    """Distinguish train configs from model fragments and other files.

    A file that the user named counts as a config if a third of its keys or tables
    are a trainer's, another one, and any in YAML or JSON, if half are. Of several
    trainers and versions it is of the one that knows most of its keys, then of its
    tables: of equals the newest version, and the first trainer. ``only`` names the
    trainer where its version alone is open; else those are asked that read files of
    the format ``form``.
    """
    if other := _other(values, form):
        return Kind("", False, other)
    program = values.get("program", "") if form == "bash" else ""
    if form == "bash":
        values = {name: v for name, v in values.items() if name not in ABOUT_SCRIPT}
    few = explicit and form in ("toml", "bash")  # other programs share many YAML keys
    share = EXPLICIT if few else FOUND
    asked = _by_name(only, form)
    ranked = list(_ranked(values, asked, only, form))
    if form == "bash" and not ranked:
        return Kind("", False, NO_FLAGS)
    if not ranked:
        return _without_tables(values, asked, explicit=explicit)
    best = max(ranked, key=lambda match: (match.known, match.tables))
    known, about = best.trainer, best.trainer.about
    if set(values) <= set(about.fragments):
        return Kind(known.id, True, f"a model fragment for {about.title}")
    starts_it = explicit and program in about.programs
    if starts_it or best.is_familiar(share):
        return Kind(known.id, False, f"a {about.title} config")
    return Kind(
        "",
        False,
        f"most of it is not {about.title}'s (--trainer {about.name} checks it)",
    )


def _other(values: dict[str, Any], form: str) -> str:
    """Return what a file is that is surely no train config, else ``""``."""
    if form == "bash" and "obstacle" in values:
        return str(values["obstacle"])
    if form == "bash" and (other := _started(values.get("launcher", []))):
        return f"it starts {other} without a file that is its config"
    blanks = (value for value in values.values() if re.fullmatch(_BLANK, str(value)))
    if form == "json" and (blank := next(blanks, "")):
        return f"a template: `{blank[:-1]}` is still to be filled in"
    for description, tables in foreign().items():
        hits = len(tables.intersection(values))
        if hits > 1 or (hits and hits == len(values)):
            return description
    if describes_trainer(values):
        return "a description of a trainer (--trainer reads it)"
    return ""


def _started(launcher: list[str]) -> str:
    """The title of the trainer whose own program, of two words, a script starts."""
    words = " ".join(word.rpartition("/")[2] for word in launcher)
    for about in trainers().values():
        program = " ".join(about.launch.split()[:2])
        if re.fullmatch(r"[a-z]\S* [a-z]+", program) and program in words:
            return about.title
    return ""


def describes_trainer(values: dict[str, Any]) -> bool:
    """Whether a file describes a trainer, and is no config."""
    tables = (values.get(name) for name in ("sections", "classes", "job"))
    return isinstance(values.get("title"), str) and all(
        isinstance(table, dict) for table in tables
    )


class _Match:
    """How many keys of a file a trainer knows, of how many; and of the tables."""

    def __init__(self, values: dict[str, Any], trainer: Trainer) -> None:
        self.trainer = trainer
        self.known = self.total = 0
        for section, table in values.items():
            keys = trainer.section_keys.get(section)
            if isinstance(table, dict):
                self.total += len(table)
                self.known += 0 if keys is None else len(keys.intersection(table))
            else:
                self.total += 1
                self.known += keys is not None
        tops = {*trainer.schema.sections}
        if "toml" not in trainer.about.formats:  # their keys stand above all tables
            tops |= {*trainer.schema.top_keys}
        self.tables = len(tops & values.keys())
        self.all_tables = len(values)

    def is_familiar(self, share: int) -> bool:
        """Whether one in ``share`` of the keys, or of the tables, is the trainer's.

        Tables without a known key count less: of a file that was found all must be.
        """
        if self.known * share >= self.total:
            return True
        enough = self.tables * share > self.all_tables
        named = share == EXPLICIT or self.tables == self.all_tables
        return enough and (self.known > 0 or named)


def _ranked(
    values: dict[str, Any], abouts: list[About], only: str, form: str
) -> Iterator[_Match]:
    """Yield the trainers' versions that may know most of a file's keys.

    A schema is read only if its trainer may know more keys than all before it. Files
    in TOML have a table; those of other formats may have keys alone.
    """
    most = (-1, 0)
    pairs = ((view, about) for about in abouts for view in _views(values, about, form))
    views = [(_at_most(view, about), view, about) for view, about in pairs]
    for bound, view, about in sorted(views, key=itemgetter(0), reverse=True):
        if view.keys().isdisjoint(about.tables):
            continue
        for name in about.among(only or about.name):
            if bound <= most:
                break
            match = _Match(view, trainer(name))
            if match.tables or (match.known and "toml" not in about.formats):
                most = max(most, (match.known, match.tables))
                yield match


def _part_keys(about: About) -> Iterator[list[str]]:
    return (part.keys for part in about.parts.values())


def _marked(names: Set[str], about: About, form: str) -> bool:
    """Whether a file has a key that each config of a trainer has, but for TOML."""
    return form == "toml" or not about.marks or not names.isdisjoint(about.marks)


def _mark_misspelt(values: dict[str, Any], about: About) -> bool:
    """Whether one key is nearly a mark of a trainer, and most others are its keys."""
    others = values.keys() - about.tables
    few = len(others) * FOUND < len(values)
    return few and any(closest(name, about.marks) for name in others)


def _views(values: dict[str, Any], about: About, form: str) -> Iterator[dict[str, Any]]:
    """Yield the values as a config's, and as those of sections with their own file."""
    if _marked(values.keys(), about, form) or _mark_misspelt(values, about):
        yield values
    for section, part in about.parts.items():
        if len(values.keys() & part.keys) > 1:
            yield {section: values}


def section_of(values: dict[str, Any], known: Trainer) -> str:
    """The section whose keys a file of a trainer has, ``""`` for the root."""
    sections = [*known.about.parts]
    hits = [_Match({name: values}, known).known for name in sections]
    most = max(hits, default=0)
    return sections[hits.index(most)] if most > _Match(values, known).known else ""


def is_part(values: dict[str, Any], section: str, known: Trainer) -> bool:
    """Whether a file that is no config by itself is a section of one beside it."""
    match = _Match({section: values}, known)
    usual = not values.keys().isdisjoint(known.about.parts[section].keys)
    return usual and match.known * EXPLICIT >= match.total


def _by_name(only: str, form: str) -> list[About]:
    known = trainers()
    if only:
        return [known[only.partition("==")[0]]]
    return [about for about in known.values() if form in about.formats]


def _at_most(values: dict[str, Any], about: About) -> tuple[int, int]:
    """How many keys and tables of a file a trainer may know, by its tables alone."""
    mine = [values[name] for name in values.keys() & about.tables]
    keys = sum(len(table) if isinstance(table, dict) else 1 for table in mine)
    return keys, len(mine)


def _without_tables(
    values: dict[str, Any], abouts: list[About], *, explicit: bool
) -> Kind:
    """What a file is that has no table of a trainer: misspelt, or keys alone."""
    for about in abouts if values else ():
        for candidate in map(trainer, about.ids):
            if explicit and _misspelt(candidate, values):
                return Kind(candidate.id, False, f"a {about.title} config")
            if about.fragments:
                keys = candidate.section_keys.values()
                bare = max(len(known & values.keys()) for known in keys)
                if bare > 1 and bare * 2 > len(values):
                    what = f"a model fragment for {about.title}"
                    return Kind(candidate.id, True, what)
    return Kind("", False, "no table that a known trainer reads")


def _misspelt(candidate: Trainer, values: dict[str, Any]) -> bool:
    """Whether most tables have nearly a section's name and one of its keys."""
    names = candidate.schema.sections
    if len(values) > 2 * len(names):
        return False  # most cannot be misspelt sections, each once
    tables = {name: value for name, value in values.items() if isinstance(value, dict)}
    near = [
        name
        for name, table in tables.items()
        if (section := closest(name, names))
        and candidate.section_keys[section] & table.keys()
    ]
    return 2 * len(near) > len(values)


def version_of(name: str, values: dict[str, Any]) -> str:
    """The trainer's version that a file is of, where the name leaves it open.

    The newest of those that know most of its keys.
    """
    about = trainers()[name.partition("==")[0]]
    open_ = about.among(name)
    ranked = list(_ranked(values, [about], name, "toml")) if len(open_) > 1 else []
    if not ranked:
        return open_[0]
    best = max(ranked, key=lambda match: (match.known, match.tables))
    return best.trainer.id


def reader(
    id_: str | Trainer, names: Iterable[str], path: str, extra_keys: Iterable[str] = ()
) -> tuple[Trainer, str]:
    """Return the trainer that reads a config, and which packages say its version.

    ``id_`` is what the keys tell, which counts where nothing says more; so does a
    version that one of ``names`` gives. A trainer in its place stays.
    ``extra_keys`` are keys of the user's fork.
    """
    if isinstance(id_, Trainer):
        return id_, ""
    about = trainers()[id_.partition("==")[0]]
    words = standing = ""
    if about.distribution and "==" not in next(filter(None, names), ""):
        from fp8tune.trainers.packages import pinned_version

        if version := pinned_version(id_, path):
            id_, words, standing = version
    pins: dict[str, str] = {}
    if about.parts and about.packages:
        from fp8tune.trainers.packages import exact_releases

        pins = exact_releases(path)
    return trainer(id_).tolerating(extra_keys, standing, pins), words


def chosen(
    document: ConfigDocument,
    names: Iterable[str],
    *,
    explicit: bool,
    loader: str = "",
) -> Kind:
    """Whose config a file is: of the first of ``names`` that is given, else by keys.

    A file that was found is none if it describes a trainer. The document's values are
    then those that this trainer's loader reads, or the ``loader``; raises as
    ``read_as``.
    """
    kind = _chosen(document.values, document.format, names, explicit=explicit)
    if kind.trainer:
        about = trainers()[kind.trainer.partition("==")[0]]
        named = "==" in next(filter(None, names), "")
        if not named and about.earlier and about.earlier_keys(document.values):
            kind = kind._replace(trainer=about.ids[-1])  # the nearest one
        document.read_as(loader or about.reads)
    return kind


def _chosen(
    values: dict[str, Any], form: str, names: Iterable[str], *, explicit: bool
) -> Kind:
    name = next(filter(None, names), "")
    is_none = form == "bash" and "obstacle" in values
    if not name or is_none or (not explicit and describes_trainer(values)):
        return recognise(values, explicit=explicit, form=form)
    about = trainers()[name.partition("==")[0]]
    if form not in about.formats:
        own = " and ".join(TITLES[each] for each in about.formats)
        return Kind("", False, f"{about.title} reads {own}, not {TITLES[form]}")
    return Kind(version_of(name, values), False, f"a {about.title} config")
