"""Find the trainer's program, and how each trial starts it.

Every trial gets explicit variables of ranks: those of a Slurm job or of another
launcher would tell it that it is one of many.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.runners.orphan import COMMAND as DIES_WITH_PARENT
from fp8tune.runners.process import without_storage
from fp8tune.runners.trainer import inside
from fp8tune.runners.trainer.recipe import (
    INSIDE,
    BadRecipe,
    Recipe,
    filled,
    instead,
    recipe_of,
    with_lines,
)
from fp8tune.trainers.about import About
from fp8tune.trainers.call import NO_PROGRAM, Program

OF_LAUNCHERS = ("SLURM_", "PMI_", "PMIX_", "OMPI_", "TORCHELASTIC_", "MV2_")
"""How variables begin by which launchers tell a process its rank."""
OF_RANKS = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK"),
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT"),
)
SET = {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "WANDB_MODE": "disabled"}
"""Variables of every trial: lines come at once, without colours, and go nowhere."""
DEFAULTS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TORCH_LOGS": "recompiles"}
"""Variables that a user may have set: the order of NVML, and a line per recompile."""
IDLE = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Variables of a rehearsal: threads that wait leave the cores to others."""
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""Variables of a rehearsal, whatever the user's: it trains on the CPU."""
ASK_S = 120.0
"""How long the trainer's Python may take to name its packages [s]."""
PORTS = range(20_000, 30_000)
"""Ports for the ranks of a trial to meet: below those that Linux gives to outgoing
connections (ip_local_port_range), which may be taken before the ranks have started."""
MOST_FILES = 5_000
"""Files of a trainer without git whose contents tell its version."""
SHOWN = 12
"""Characters of a commit that are shown."""
_ASK = """
import importlib.metadata as metadata, importlib.util as util, json, sys
def version(name):
    try: return metadata.version(name)
    except metadata.PackageNotFoundError: return ""
package, *others = sys.argv[1:]
found = not package or bool(util.find_spec(package))
versions = {name: version(name) for name in (package, *others) if name}
print(json.dumps({"found": found, "versions": versions}))
"""


class CannotLaunch(Exception):
    """No trial can run the trainer here; the message says why and what to type."""


class Launch(NamedTuple):
    """A trainer that trials can run.

    ``folder`` is its checkout, ``""`` for an installed package. ``python`` runs it.
    ``versions`` are those of torch, torchao and the trainer itself. ``name`` is the
    trainer's, ``title`` as people write it.
    """

    name: str
    title: str
    recipe: Recipe
    folder: str
    python: str
    ranks: int
    device: str
    versions: Mapping[str, str]

    @property
    def prints(self) -> str:
        """The name of the lines in which steps are read."""
        return INSIDE if self.recipe.inside else self.recipe.log or self.name

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes its trials from those of another trainer or version."""
        words = self.recipe.words(self.ranks, {})
        return {"runner": words, "trainer_versions": dict(self.versions)}

    def __str__(self) -> str:
        """Return what runs, for people: the trainer, its version and its Python."""
        version = self.versions.get(self.name, "")
        where = f" of {self.folder}" if self.folder else ""
        shown = f" {version[:SHOWN]}" if version else ""
        program = str(self.recipe.command[0]).replace("{python}", self.python)
        return f"{self.title}{shown}{where}, by {program}"

    def command(
        self, values: Mapping[str, str], program: Program = NO_PROGRAM
    ) -> list[str]:
        """Return the command of a trial; ``values`` are of its placeholders."""
        known = {
            "python": self.python,
            "inside": inside.__file__,
            "dir": self.folder,
            "ranks": str(self.ranks),
            **values,
        }
        # torchrun ends its ranks itself where it gets a signal that it can handle
        number = "TERM" if self.ranks > 1 else "KILL"
        start = [*DIES_WITH_PARENT, str(os.getpid()), number]
        return [*start, *self.recipe.words(self.ranks, known, program)]

    def environment(
        self, values: Mapping[str, str], program: Program = NO_PROGRAM
    ) -> dict[str, str]:
        """Return the variables of a trial."""
        own = {
            name: filled(text, {"dir": self.folder, **values})
            for name, text in self.recipe.environment.items()
        }
        if self.recipe.inside:
            own[inside.TRACES] = values["traces"]
        ranks = 0 if self.recipe.launches else self.ranks
        found = variables(self.folder, ranks, dict(program.environment))
        if self.device == "cpu":
            found = {**IDLE, **found, **NO_GPU}
        return {**found, **own}


def find_launch(
    about: About,
    directory: str,
    ranks: int,
    device: str,
    *,
    own: bool,
    gpus: int = 0,
    python: str = "",
) -> Launch:
    """Return how to run a trainer on so many ranks; raises ``CannotLaunch``.

    ``directory`` is its checkout. With ``own`` the command is that of a user's file.
    ``gpus`` is how many this machine has, 0 if that is not to be checked. ``python``
    runs it: that of the checkout's ``.venv``, else the one that runs this.
    """
    recipe = checked(about, directory, own=own)
    _check_ranks(recipe, ranks, gpus)
    folder = os.path.abspath(directory) if directory else ""
    python = python_of(python, directory)
    program = recipe.words(1, {"python": python, "dir": folder})[0]
    if not shutil.which(program):
        raise CannotLaunch(f"{recipe.origin}: no program {program}")
    versions = _versions(about, recipe, folder, python)
    return Launch(
        about.name,
        about.title,
        recipe,
        folder=folder,
        python=python,
        ranks=ranks,
        device=device,
        versions=versions,
    )


def checked(about: About, directory: str, *, own: bool) -> Recipe:
    """Return how a trainer is run, if its checkout is there; needs no GPU.

    The arguments are those of ``find_launch``. Raises ``CannotLaunch``.
    """
    try:
        recipe = _recipe(about, own=own)
    except BadRecipe as error:
        raise CannotLaunch(str(error)) from None
    _check_folder(about, recipe, directory)
    return recipe


def _recipe(about: About, *, own: bool) -> Recipe:
    if own and about.own is None:
        raise CannotLaunch(
            "--runner command runs the command of a file of your own, --trainer "
            f"ours.toml; for {about.title} it is --runner trainer"
        )
    if about.own is not None and not own:
        raise CannotLaunch(
            f"{about.title} is described by {about.own.path}: --runner command runs "
            "the command in its [run]"
        )
    recipe = recipe_of(about)
    if recipe.refused:
        why = f"{recipe.refused}; {instead(about)}"
        raise CannotLaunch(f"no trial runs {about.title}: {why}")
    with_lines(about.name, about, recipe)
    return recipe


def _check_ranks(recipe: Recipe, ranks: int, gpus: int) -> None:
    if gpus and ranks > gpus:
        raise CannotLaunch(
            f"the config is for {ranks} GPUs, and here {'is' if gpus == 1 else 'are'} "
            f"{gpus}: its own trainer can only run on all of them; --runner builtin "
            f"measures one of the {ranks} ranks, or --world-size {gpus} another job"
        )
    if ranks > 1 and not (recipe.ranks or recipe.launches):
        raise CannotLaunch(
            f"{recipe.origin}: no `ranks`: the command for several ranks, and the "
            f"config is for {ranks}"
        )


def _check_folder(about: About, recipe: Recipe, directory: str) -> None:
    if not directory:
        if recipe.needs or recipe.has("dir"):
            raise CannotLaunch(
                f"--trainer-dir PATH names the checkout of {about.title}"
            )
        return
    if not os.path.isdir(directory):
        raise CannotLaunch(f"--trainer-dir {directory}: no such folder")
    missing = [
        n for n in recipe.needs if not os.path.exists(os.path.join(directory, n))
    ]
    if missing:
        names = ", ".join(missing)
        raise CannotLaunch(
            f"--trainer-dir {directory}: no {names} there: is it a checkout of "
            f"{about.title}?"
        )


def python_of(python: str, directory: str) -> str:
    """Return the Python that runs a trainer: as asked, its checkout's, or this.

    Raises ``CannotLaunch`` if the one that is asked for is not there.
    """
    if python and not shutil.which(python):
        raise CannotLaunch(f"--python {python}: no such program")
    own = os.path.join(os.path.abspath(directory), ".venv", "bin", "python")
    there = own if directory and os.access(own, os.X_OK) else sys.executable
    return python or there


def _versions(about: About, recipe: Recipe, folder: str, python: str) -> dict[str, str]:
    """Return the versions of torch, torchao, what the trainer names, and itself."""
    if "{python}" not in recipe.command:
        return {about.name: _revision(folder)} if folder else {}
    asked = dict.fromkeys(("torch", "torchao", *about.packages))
    found, versions = _ask(python, folder, recipe.package, asked)
    if not found:
        raise CannotLaunch(_not_installed(about, recipe, folder, python))
    if "torch" not in versions:
        raise CannotLaunch(f"{python} has no torch: install what {about.title} needs")
    own = versions.pop(recipe.package, "")
    versions[about.name] = _revision(folder) if folder else own
    return {name: version for name, version in versions.items() if version}


def _not_installed(about: About, recipe: Recipe, folder: str, python: str) -> str:
    """Return that a Python has no package of a trainer, and what to type."""
    missing = f"{about.title} is not installed: {python} finds no {recipe.package}"
    if folder:
        return missing
    install = f"{python} -m pip install {recipe.install}; or " * bool(recipe.install)
    named = "--python PATH names a Python that has it, --trainer-dir PATH its checkout"
    return f"{missing}; {install}{named}"


def releases_in(python: str, directory: str, names: Iterable[str]) -> dict[str, str]:
    """Return the releases of packages in the Python that runs a trainer.

    ``python`` and ``directory`` are those of ``find_launch``. Raises ``CannotLaunch``.
    """
    folder = os.path.abspath(directory) if directory else ""
    return _ask(python_of(python, directory), folder, "", names)[1]


def _ask(
    python: str, folder: str, package: str, names: Iterable[str]
) -> tuple[bool, dict[str, str]]:
    """Return whether a Python finds a package, and the releases that it has of all."""
    command = [python, "-c", _ASK, package, *names]
    try:
        asked = subprocess.run(  # noqa: S603, no shell: a list of arguments
            command,
            env=variables(folder, 1),
            capture_output=True,
            timeout=ASK_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        answer = json.loads(asked.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        typed = "--python PATH names the Python that has the trainer"
        raise CannotLaunch(f"{python}: {_why_no_answer(error)}; {typed}") from None
    versions = {name: each for name, each in answer["versions"].items() if each}
    return bool(answer["found"]), versions


def _why_no_answer(error: Exception) -> str:
    """Return why a program does not name its packages."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer within {error.timeout:.0f} s"
    if isinstance(error, subprocess.CalledProcessError):
        lines = error.stderr.decode(errors="replace").split("\n")
        last = next((f": {line[:200]}" for line in reversed(lines) if line), "")
        return f"it ends with code {error.returncode}{last}"
    return str(error.strerror) if isinstance(error, OSError) else "it is no Python"


def _revision(folder: str) -> str:
    """Return the commit of a checkout with a digest of its changes, else of its files.

    A checkout that changes is another trainer.
    """
    head = _git(folder, "rev-parse", "HEAD").decode(errors="replace").strip()
    if head:
        changed = _git(folder, "diff", "HEAD", "--", "*.py")
        return head + (f"+{_digest(changed)}" if changed else "")
    digest = hashlib.sha256()
    for path in _sources(folder):
        status = path.stat()
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _git(folder: str, *words: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603, no shell: a list of arguments
            ["git", "-C", folder, *words],  # noqa: S607, the user's own git
            capture_output=True,
            timeout=ASK_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return b""
    return b"" if done.returncode else done.stdout


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _sources(folder: str) -> Iterator[Path]:
    """Yield the Python files of a folder, in order."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f[0] not in "._")
        for name in sorted(names):
            if name.endswith(".py") and count < MOST_FILES:
                count += 1
                yield Path(place, name)


def variables(
    folder: str, ranks: int, exported: Mapping[str, str] = {}
) -> dict[str, str]:
    """Return this process's variables with those of ranks for a trial.

    Ranks that a launcher starts, as several are, get theirs from it. ``exported`` are
    those of the user's launch script, but for the GPUs, which this process has. The
    trainer's folder comes first where it
    imports from; relative paths in a config are meant from this process's folder.
    """
    of_script = {n: v for n, v in exported.items() if n not in NO_GPU}
    kept = {
        name: value
        for name, value in {**without_storage(os.environ), **of_script}.items()
        if not name.startswith(OF_LAUNCHERS) and name not in OF_RANKS
    }
    if folder:
        above = filter(None, (folder, kept.get("PYTHONPATH")))
        kept["PYTHONPATH"] = os.pathsep.join(above)
    if ranks == 1:
        kept |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
        kept |= {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}
        kept["MASTER_PORT"] = str(_free_port())
    return {**DEFAULTS, **kept, **SET}


def _free_port() -> int:
    """Return a port that is free, and that no outgoing connection will take."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as one, suppress(OSError):
            one.bind(("", port))
            return port
    raise CannotLaunch("no port is free")
