"""What each trainer says of itself: the ``trainer.toml`` of its folder.

A folder of this package that holds that file is a trainer; nothing lists them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from fp8tune import trainers as package
from fp8tune.suggest import closest

if TYPE_CHECKING:
    from fp8tune.job import Source


PACKAGE, DESCRIBED = "fp8tune.trainers.", "described"
COMMAND = r"\.[a-z_]+$"
"""The command of a version, where a trainer has files of several: ``0.8.1.sft``."""

BOUNDS = {"since", "until", "of"}
"""The releases, both included, and the commands that an entry is of."""

BOOLEANS = {"true": True, "false": False}
"""Values of knobs that are keys of a table, where TOML has only text."""

USUAL = [{"role": role} for role in ("micro_batch", "ac", "compile", "precision")]
"""The knobs of a trainer that says none: fields that a key of it may set."""

ALONE = {"shared": ["dense"], "words": ["job", "memory", "gemms"]}
"""The modules of a trainer that is data alone, its words in ``described``."""


class Own:
    """What a user's file says of a trainer beside its ``About``.

    The values of a schema, the fields of the job that are no single key, and how a
    search launches it, as its ``run`` table says it.
    """

    def __init__(
        self,
        path: str,
        schema: dict[str, Any],
        computed: dict[str, Source],
        run: dict[str, Any],
    ) -> None:
        self.path = path
        self.schema = schema
        self.computed = computed
        self.run = run


class PartAbout:
    """A section of a trainer's keys that has a file of its own.

    A file with two of ``keys`` may be such a file alone. The values of the keys
    ``named_by`` are the path of the file, or, with ``file``, of the folder that holds
    it by this name. ``reads`` is what reads the file, if not what reads the others.
    ``trainer`` is the one whose config the file is by itself, which checks it too;
    ``also`` are others of whose config the section may be.
    ``title`` is what messages call the file.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.keys: list[str] = data.get("keys", [])
        self.named_by: list[str] = data.get("named_by", [])
        self.file: str = data.get("file", "")
        self.reads: str = data.get("reads", "")
        self.trainer: str = data.get("trainer", "")
        self.also: list[str] = data.get("also", [])
        self.title: str = data.get("title", "")


class CallAbout:
    """What a command that runs a trainer looks like.

    ``program`` are its words in a row, patterns of ``fnmatch``: programs, modules and
    Python files. The value of the options ``config`` is the config, else the first
    argument, if ``argument``. With ``script``, options end at the script that the
    program starts, and ``switches`` are those of them that have no value.
    ``starts`` is how many processes: ``one``, ``all`` for one on each GPU, as the
    options ``processes`` say, or ``config`` if the config says it. Options in
    ``harmless``, with a value, change nothing of the config; without ``overrides``
    nothing does. A ``launcher`` starts Python files, also those of other trainers.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.program: list[str] = data["program"]
        self.config: list[str] = data.get("config", [])
        self.argument: bool = data.get("argument", not self.config)
        self.script: bool = data.get("script", False)
        self.switches: list[str] = data.get("switches", [])
        self.starts: str = data.get("starts", "one")
        self.processes: list[str] = data.get("processes", [])
        self.harmless: list[str] = data.get("harmless", [])
        self.overrides: bool = data.get("overrides", True)
        self.launcher: bool = data.get("launcher", False)

    @property
    def is_general(self) -> bool:
        """Whether any program may be meant: then it counts where no other call does."""
        return self.program[0].startswith("*")


class KnobAbout:
    """A knob of a trainer: what a search may vary, and with which values.

    ``role`` names it in ``--allow`` and in reports; ``Traits`` say what a search may
    assume of a role. It is a field of the job, or the config key ``key``. ``values``
    are tried, none where they follow from the job or the key lists them; ``keys`` has
    for each of them the config keys that it writes, and those that it removes with the
    value ``[]``. ``needs`` is a condition on the job. ``bounds`` are the releases and
    commands that have it, as ``is_of`` reads them.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.role: str = data["role"]
        self.key: str = data.get("key", "")
        self.keys: dict[Any, dict[str, Any]] = {
            BOOLEANS.get(value, value): keys
            for value, keys in data.get("keys", {}).items()
        }
        self.values: list[Any] = data.get("values", [*self.keys])
        self.needs: str = data.get("needs", "")
        self.bounds = {name: data[name] for name in BOUNDS & data.keys()}


class About:
    """A trainer before its schema is read; the fields are explained in docs/guides.

    ``versions`` are those that its ``schema.toml`` covers, the oldest first; a trainer
    without releases has the version ``""``. ``ids`` names them, the newest first:
    ``torchtitan==0.2.2``. ``package`` has its own modules: a trainer without ``words``
    has none. ``formats`` are those of its configs, ``reads`` is what reads them where
    that matters: ``pyyaml`` or ``omegaconf`` for YAML, ``json`` or ``hjson`` for JSON.
    ``programs`` are its own Python files: a script that starts one is its config.
    ``missing`` are names that a user can give, and what to say where one is needed.
    ``advice`` says what to type to have a gap of the estimates covered, and, as
    ``file.SECTION``, how to name a file of the job that is not given.
    ``marks`` are keys at the root of which each of its configs has one, but for those
    in TOML: many of its keys are words that other programs use too.
    ``named`` has the keys that name a file of another trainer, by that trainer's name.
    ``earlier`` has keys of releases before all known ones, and what became of them.
    ``distribution`` is the trainer's own package, whose release is its version.
    ``modules`` say the fields of its job, each replacing those before it. ``own`` is
    set for a trainer that a user describes in a file.
    """

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        self.name = name
        self.title: str = data["title"]
        self.package = PACKAGE + (name if "words" in data else DESCRIBED)
        words = data if "words" in data else ALONE
        shared = [PACKAGE + name for name in words.get("shared", ())]
        self.modules = [*shared, *(f"{self.package}.{w}" for w in words["words"])]
        self.tables: list[str] = data["tables"]
        self.launch: str = data.get("launch", "")
        self.programs: list[str] = data.get("programs", [])
        self.calls = [CallAbout(call) for call in data.get("call", [])]
        self.formats: list[str] = data.get("formats", ["toml"])
        self.reads: str = data.get("reads", "pyyaml")
        self.marks: list[str] = data.get("marks", [])
        self.data: str = data.get("data", "")
        self.no_estimate: str = data.get("no_estimate", "")
        self.counts: str = data.get("counts", "")
        self.packages: list[str] = data.get("packages", [])
        self.distribution: str = data.get("package", "")
        self.versions: list[str] = data.get("versions", [""])
        self.unlisted = data.get("unlisted", "").replace("{newest}", self.versions[-1])
        self.fragments: list[str] = data.get("fragments", [])
        self.settings: list[str] = data.get("settings", [])
        self.harmless: list[str] = data.get("harmless", [])
        self._learned: list[str] | None = data.get("learned")
        self.knobs = [KnobAbout(knob) for knob in data.get("knob", USUAL)]
        self.earlier: dict[str, str] = data.get("earlier", {})
        self.others: dict[str, list[str]] = data.get("others", {})
        self.faults: dict[str, list[str]] = data.get("faults", {})
        self.missing: dict[str, str] = data.get("missing", {})
        self.advice: dict[str, str] = data.get("advice", {})
        self.phases: dict[str, Any] = data.get("phases", {})
        self.named: dict[str, list[str]] = data.get("named", {})
        self.parts = {
            name: PartAbout(part) for name, part in data.get("part", {}).items()
        }
        self.own: Own | None = None
        self.ids = [f"{name}=={v}" if v else name for v in reversed(self.versions)]

    @property
    def releases(self) -> list[str]:
        """Its releases, the oldest first, whatever the command."""
        return [*dict.fromkeys(release_of(version)[0] for version in self.versions)]

    @cached_property
    def learned(self) -> list[str]:
        """Tables and keys that change what is learned: all that are not harmless."""
        if self._learned is not None:
            return self._learned
        return [name for name in self.tables if name not in self.harmless]

    def earlier_keys(self, raw: dict[str, Any]) -> dict[str, str]:
        """Return the keys of a file that only releases before all known ones have.

        With what the first known one has in their place. Nothing for a single key,
        which may be a mistake.
        """
        inner = (
            f"{t}.{name}" for t in raw if isinstance(raw[t], dict) for name in raw[t]
        )
        found = [name for name in (*raw, *inner) if name in self.earlier]
        return {name: self.earlier[name] for name in found} if len(found) > 1 else {}

    def among(self, name: str) -> list[str]:
        """The ids that a name may mean, the newest first.

        The trainer's name means all, a version without the command (``0.8.1`` of
        ``0.8.1.sft``) those of all its commands.
        """
        if name == self.name:
            return self.ids
        plain = [each for each in self.ids if re.sub(COMMAND, "", each) == name]
        return [name] if name in self.ids else plain


@cache
def trainers() -> dict[str, About]:
    """Every trainer by its name: those with TOML configs, then the others.

    Each in the order of the alphabet. Where a name could mean several trainers, the
    first is meant: estimates, trials and pages know most of those with TOML configs.
    """
    try:
        from fp8tune._index import TRAINERS
    except ImportError:  # in a checkout
        every = [About(name, data) for name, data in parsed()]
    else:
        every = [About(name, data) for name, data in TRAINERS]
    every.sort(key=lambda about: "toml" not in about.formats)
    return {about.name: about for about in every}


def parsed() -> Iterator[tuple[str, dict[str, Any]]]:
    """What the ``trainer.toml`` of each folder says, with its name and versions."""
    names = {name for folder in package.__path__ for name in os.listdir(folder)}
    for name in sorted(names):
        if os.path.isfile(path_of(name, "trainer.toml")):
            yield name, read_toml(name, "trainer.toml")


def launchers() -> dict[str, str]:
    """Return the programs of trainers that start Python files, and what they start."""
    calls = (call for about in trainers().values() for call in about.calls)
    return {call.program[0]: call.starts for call in calls if call.launcher}


def add(about: About) -> None:
    """Add a trainer that a user describes; of equal matches it is the first."""
    known = trainers()
    others = {name: each for name, each in known.items() if name != about.name}
    known.clear()
    known |= {about.name: about, **others}


def path_of(*names: str) -> str:
    """The path of a trainer's file, or where it would be."""
    paths = [os.path.join(folder, *names) for folder in package.__path__]
    return next(filter(os.path.exists, paths), paths[0])


def read_toml(*names: str) -> dict[str, Any]:
    """Read a trainer's TOML file."""
    import tomllib

    with open(path_of(*names), "rb") as file:
        return tomllib.load(file)


def order(version: str) -> list[tuple[int, str]]:
    """Return what sorts 0.10 after 0.9."""
    parts = re.findall(r"\d+|[a-z]+", version)
    return [(int(part) if part.isdigit() else -1, part) for part in parts]


def release_of(version: str) -> tuple[str, str]:
    """Return the release of a version, and the command whose files it is about."""
    release = re.sub(COMMAND, "", version)
    return release, version[len(release) + 1 :]


def is_of(bounds: Mapping[str, Any], version: str) -> bool:
    """Return whether what has these bounds is in a version.

    ``since`` and ``until`` are releases, both included, ``of`` are commands.
    """
    release, command = release_of(version)
    return (
        order(bounds.get("since", release)) <= order(release)
        and order(release) <= order(bounds.get("until", release))
        and command in bounds.get("of", [command])
    )


def named(name: str) -> str:
    """The name of a trainer as fp8tune writes it: ``torch-titan`` is ``torchtitan``.

    By its title too; other names stay as they are.
    """
    known, (plain, *version) = trainers(), name.split("==", 1)
    alike = (a.name for a in known.values() if _letters(plain) in _spellings(a))
    found = plain if plain in known else next(alike, plain)
    return "==".join((found, *version))


def _spellings(about: About) -> set[str]:
    return {_letters(about.name), _letters(about.title)}


def _letters(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).casefold()


def misnamed(name: str) -> str:
    """Why there is no such trainer or version, and what there is; ``""`` if there is.

    ``name`` is ``torchtitan`` or ``torchtitan==0.2.2``.
    """
    known = trainers()
    plain, _, version = name.partition("==")
    if plain not in known:
        near = closest(plain, known)
        hint = f"; did you mean {near}?" if near else f"; known: {', '.join(known)}"
        return f"no trainer named {plain!r}{hint}"
    about = known[plain]
    if about.among(name):
        return ""
    if about.versions == [""]:
        return f"{about.title} has one version here: write {plain}"
    near = _nearest(version, about.releases)
    if not near and about.unlisted and order(version) > order(about.versions[-1]):
        return f"no {about.title} {version} here: {about.unlisted}"
    hint = f"did you mean {plain}=={near}? " if near else ""
    return f"no {about.title} {version}; {hint}known: {', '.join(about.releases)}"


def _nearest(version: str, versions: list[str]) -> str:
    """The newest version that begins so, or that has the same first two numbers."""
    first = order(version)[:2]
    near = [v for v in versions if v.startswith(version) or order(v)[:2] == first]
    return near[-1] if near and version else ""


def module_of(trainer: str) -> str:
    """The module of a wheel that holds the schema of a trainer's version."""
    return "fp8tune._index_" + trainer.replace("==", "_").replace(".", "_")


def titles(form: str) -> str:
    """The names of the trainers that read a format as people write them."""
    return ", ".join(a.title for a in trainers().values() if form in a.formats)
