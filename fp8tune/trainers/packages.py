"""Versions of packages: those that files beside a config pin, or that are installed.

Trainers whose runs depend on another package ask (``packages`` in trainer.toml), those
that say which ``package`` they are themselves, and every run that may be in FP8, for
the packages of ``facts/versions.toml``. The folder of the config is looked at, then
those above it up to the repository's root. What is installed counts where ``installed``
has been read, and nothing pins it.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.trainers.about import COMMAND, About, order, trainers

if TYPE_CHECKING:
    from fp8tune.trainers.faults import Fault, Loaded

LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
REQUIREMENTS = r"(?:requirements|constraints)[\w.-]*\.txt"
PROJECT = "pyproject.toml"

MAX_BYTES = 16 * 1024 * 1024
"""Largest file that is read; lock files of large projects have a few MB."""
MAX_FOLDERS = 8
"""Folders that are looked at, the config's own and those above it."""
MAX_FILES = 10
"""Files of requirements that are read in one folder."""

_REQUIREMENT = r"\s*([A-Za-z0-9][\w.-]{0,99})\s*(?:\[[^]]{0,99}\])?\s*(.{0,200})"
_SOURCE = (
    r"\s*(?:-e|--editable)[\s=]+(\S+)"
    r"|\s*([A-Za-z0-9][\w.-]{0,99})\s*(?:\[[^]]{0,99}\])?\s*@\s*(\S+)"
)
"""A requirement that names a folder or an address in place of a release."""
_TAG = r"@v?(\d{1,4}(?:\.\d{1,6}){1,3}(?:\.dev\d+)?)(?:#|$)"
_ENTRY = r"(?m)^\[\[packages?\]\]"
_GIT = r"""\bgit\s*=|\btype\s*=\s*["']git["']"""
"""What an entry of a package says that comes from a repository."""
_NAME = r"""(?m)^\s*name\s*=\s*["']([\w.-]{1,99})"""
_DEVELOPED = r"\.?(?:dev|a|b|rc)\d+"
"""The end of the version of a development build or a candidate."""
_BOUND = r"(===?|~=|<=|<)\s*(\d{1,4}(?:\.\d{1,6}){0,3})([^\s,]{0,99})"


class Release(NamedTuple):
    """The release of a package, and what says so: a file's name, or ``installed``.

    ``version`` is empty for a folder, or a commit without a tag of a release.
    ``newest`` says that it is only the newest one that an upper bound allows. Not
    ``exact`` is a bound that others meet too, such as ``~=2.10`` or ``==2.*``. What
    comes ``from_git`` may be of any commit.
    """

    version: str
    origin: str
    newest: bool = False
    exact: bool = True
    from_git: bool = False

    @property
    def developed(self) -> bool:
        """Whether it is a development build, a candidate, or from a repository."""
        return self.from_git or bool(re.search(_DEVELOPED, self.version))


STANDS_FOR = {
    "": "",
    "later": ": keys that {} lacks are not reported",
    "another": ": what {} refuses is not reported",
}
"""What is left out where a known version stands for a release that is not known.

A patch release (``""``) has the keys of its version. A ``later`` one may have more. Of
``another``, older than all or a development build, nothing is certain.
"""


class Version(NamedTuple):
    """How a trainer's release is read: the id, what says so, and ``STANDS_FOR``."""

    id: str
    words: str
    standing: str


_environment: dict[str, Release] = {}
"""What ``assuming`` gives; empty unless ``--installed`` asks for it."""


@contextmanager
def assuming(environment: dict[str, str]) -> Iterator[None]:
    """Take these releases for installed."""
    before = dict(_environment)
    _environment.update(
        {name: Release(each, "installed") for name, each in environment.items()}
    )
    try:
        yield
    finally:
        _environment.clear()
        _environment.update(before)


def installed() -> dict[str, str]:
    """Return the releases in the active environment of all packages that are asked for.

    That of ``$VIRTUAL_ENV``, else that of this Python. Only the files that installers
    write are read; nothing is imported.
    """
    from importlib.metadata import distributions

    active = os.environ.get("VIRTUAL_ENV", "")
    found: dict[str, str] = {}
    for each in distributions(path=_site_packages(active) if active else sys.path):
        name = each.metadata["Name"]
        if name and _plain(name) in wanted():
            found.setdefault(_plain(name), each.version)
    return found


def _site_packages(environment: str) -> list[str]:
    """The folders of a virtual environment that hold packages."""
    from glob import escape, glob

    inside = ("lib/python3*/site-packages", "Lib/site-packages")
    return [p for name in inside for p in glob(os.path.join(escape(environment), name))]


@cache
def wanted() -> frozenset[str]:
    """The packages that some trainer or FP8 asks for, and the trainers' own."""
    abouts = trainers().values()
    names = (name for each in abouts for name in (*each.packages, each.distribution))
    return frozenset((*names, *_of_fp8()))


@cache
def _of_fp8() -> tuple[str, ...]:
    """The packages whose versions matter to runs in FP8."""
    from fp8tune.facts.versions import packages

    return tuple(sorted(map(_plain, packages())))


def releases(path: str) -> dict[str, Release]:
    """Return the release of each package for a config: pinned, else installed."""
    return _environment | pinned(os.path.dirname(os.path.abspath(path)))


def pinned_version(trainer: str, path: str) -> Version | None:
    """Return how a trainer's release that packages say is read; ``None`` without one.

    As the newest known version that is not newer, else as the oldest. ``trainer`` is
    what the keys tell, which says the command where a trainer has files of several.
    """
    about = trainers()[trainer.partition("==")[0]]
    release = releases(path).get(about.distribution) if about.distribution else None
    if release is None:
        return None
    command = re.search(COMMAND, trainer)
    mine = [v for v in about.versions if not command or v.endswith(command[0])]
    known = {re.sub(COMMAND, "", version): version for version in mine}
    parts = order(release.version)
    older = [v for v in known if order(v)[: len(parts)] <= parts]
    version = older[-1] if older else next(iter(known))
    if release.developed and release.version not in known:
        version = re.sub(COMMAND, "", trainer.partition("==")[2])
    standing = _standing(release, version)
    words = release.origin
    if standing == "later" and about.unlisted:
        words = f"{words} has {release.version}: {about.unlisted}"
    elif standing or not (release.newest or _begins(release.version, version)):
        version_of = f"{release.version}{' from git' * release.from_git}"
        version_of = version_of if release.version else "a folder or commit"
        words = f"{words} has {version_of}, which fp8tune does not know"
        words += STANDS_FOR[standing].format(version)
    return Version(f"{about.name}=={known[version]}", words, standing)


def _standing(release: Release, known: str) -> str:
    """Return how far a known version stands for a release: see ``STANDS_FOR``."""
    parts, other = order(release.version), order(known)
    if parts == other and not release.from_git:
        return ""
    if release.developed or re.search(_DEVELOPED, known):
        return "another"
    if release.newest or parts[:2] == other[: len(parts)][:2]:
        return ""
    return "another" if parts < other else "later"


def _begins(release: str, known: str) -> bool:
    """Whether a known version is the release, or one that it leaves open."""
    parts = order(release)
    return order(known)[: len(parts)] == parts


def with_releases(loaded: "Loaded", about: About, path: str) -> "Loaded":
    """Return a loaded config with the releases of packages on which its run depends.

    Of those that its trainer asks for, ``x_release`` is that of the package ``x``, and
    ``x_at_most`` the newest that an upper bound allows; what nothing pins is left out.
    ``environment_known`` is true if the environment of the run was looked at: it has
    the trainer itself. ``x_version`` are exact releases that matter to a run in FP8.
    Faults that say which ``package`` and ``release`` they are not of go, and are
    refusals where it is surely another.
    """
    found = releases(path)
    values: dict[str, Any] = {
        f"{name}_version": found[name].version
        for name in (_of_fp8() if found else ())
        if name in found and found[name].exact and found[name].version
    }
    for name in about.packages:
        if (release := found.get(name)) and release.version:
            what = "at_most" if release.newest else "release"
            values[f"{name}_{what}"] = release.version
    if about.packages:
        values["environment_known"] = about.distribution in _environment
    left = (each for each in loaded.faults if not _is_met(each, found))
    faults = [_refused_by(each, found) for each in left]
    return loaded._replace(values=loaded.values | values, faults=faults)


def exact_releases(path: str) -> dict[str, str]:
    """Return the release of each package of which a config's files name just one."""
    found = releases(path).items()
    sure = {n: r for n, r in found if r.exact and not (r.newest or r.developed)}
    return {name: release.version for name, release in sure.items()}


def _is_met(fault: "Fault", found: dict[str, Release]) -> bool:
    """Whether the release that a fault asks for may be there, by its first number."""
    release = found.get(fault.facts.get("package", ""))
    first = release.version.partition(".")[0] if release else ""
    return bool(release) and first == fault.facts["release"]


def _refused_by(fault: "Fault", found: dict[str, Release]) -> "Fault":
    """A fault as a refusal, where its package is surely not of the release it needs."""
    package = fault.facts.get("package", "")
    release = found.get(package)
    if not release or not release.exact or release.newest or release.developed:
        return fault
    key, needs = fault.facts["key"], f"{package} {fault.facts['release']}"
    reason = f"`{key}` needs {needs}, and the run has {package} {release.version}"
    hint = f"take `{key}` out, or install {needs}"
    facts = {"key": key, "reason": reason, "hint": hint}
    return fault._replace(kind="refused-settings", facts=facts)


@cache
def pinned(folder: str) -> dict[str, Release]:
    """Return the release of each package that the nearest files pin.

    Of an upper bound it is the newest that it allows: ``<5`` is 4, ``<5.3`` is 5.2.
    """
    for _ in range(MAX_FOLDERS):
        found: dict[str, Release] = {}
        for name, release in _of_folder(folder):
            if name in wanted():
                found.setdefault(name, release)
        above = os.path.dirname(folder)
        if found or above == folder or os.path.exists(os.path.join(folder, ".git")):
            return found
        folder = above
    return {}


def _of_folder(folder: str) -> Iterator[tuple[str, Release]]:
    """Yield packages and releases of a folder's files, the surest first."""
    try:
        names = sorted(os.listdir(folder))
    except (OSError, ValueError):  # a NUL in the name
        return
    texts = [name for name in names if re.fullmatch(REQUIREMENTS, name)][:MAX_FILES]
    locks = [name for name in LOCKS if name in names]
    for name in (*locks, *texts, *({PROJECT} & {*names})):
        path = os.path.join(folder, name)
        yield from _of_file(name, path)


def _of_file(name: str, path: str) -> Iterator[tuple[str, Release]]:
    """Yield packages and releases of one file."""
    if name in LOCKS:
        for package, version, git in _of_lock(_read(path)):
            yield package, Release(version, name, from_git=git)
    elif name != PROJECT:
        yield from _of_lines(_read(path).splitlines(), name)
    else:
        project = _parsed(_read(path)).get("project")
        if isinstance(project, dict):
            yield from _of_checkout(project, name)
            lines = _list(project.get("dependencies"))
            texts = [line for line in lines if isinstance(line, str)]
            yield from _of_lines(texts, name)


def _of_checkout(project: dict[str, Any], origin: str) -> Iterator[tuple[str, Release]]:
    """Yield the project itself: it may be a checkout of the trainer, or a fork."""
    name, version = project.get("name"), project.get("version")
    if isinstance(name, str) and isinstance(version, str):
        yield _plain(name), Release(version, origin)


def _of_lock(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the packages of a lock file that are asked for: name, release, if from git.

    Only their entries are parsed: a whole file of 1 MB takes 0.1 s.
    """
    for part in re.split(_ENTRY, text)[1:]:
        match = re.search(_NAME, part)
        if match is None or _plain(match[1]) not in wanted():
            continue
        entry = _parsed(part)
        name, release = entry.get("name"), entry.get("version")
        if isinstance(name, str) and isinstance(release, str):
            yield _plain(name), release, bool(re.search(_GIT, part))


def _of_lines(lines: list[str], origin: str) -> Iterator[tuple[str, Release]]:
    for line in lines:
        if source := re.match(_SOURCE, line):
            place = source[1] or source[3]
            name = source[2] or re.split("[@#]", place)[0].rpartition("/")[2]
            tag = re.search(_TAG, place)
            release = Release(tag[1] if tag else "", origin, from_git=not tag)
            yield _plain(name.removesuffix(".git")), release
            continue
        match = re.match(_REQUIREMENT, line.partition("#")[0].partition(";")[0])
        bounds = re.findall(_BOUND, match[2]) if match else []
        if match and bounds:
            sign, version, rest = min(bounds, key=_by_sign)
            exact = sign.startswith("==") and (not rest or rest.startswith("+"))
            newest = sign.startswith("<")
            build = re.match(_DEVELOPED, rest) if sign.startswith("==") else None
            version = version + build[0] if build else _newest(sign, version)
            release = Release(version, origin, newest, exact)
            yield _plain(match[1]), release


def _by_sign(bound: tuple[str, str, str]) -> int:
    return ("==", "===", "~=", "<=", "<").index(bound[0])


def _newest(sign: str, release: str) -> str:
    """Return the newest release that a bound allows, as far as it says."""
    if sign != "<":
        return release
    first, *rest = [int(part) for part in release.split(".")]
    if any(rest[1:]):
        return f"{first}.{rest[0]}"
    return f"{first}.{rest[0] - 1}" if any(rest) else str(first - 1)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parsed(text: str) -> dict[str, Any]:
    import tomllib  # costs start-up time, and few configs have such a file beside them

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _read(path: str) -> str:
    """Return a file's text; ``""`` for one that is too large or no plain file."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_BYTES:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_BYTES)
    except OSError:
        return ""
