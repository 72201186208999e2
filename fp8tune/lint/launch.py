"""Read what a launch script runs: the trainer's config, overrides, and GPUs.

The script is read, never run. GPUs come from ``#SBATCH`` lines, ``srun`` and
``torchrun``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fp8tune.formats.bash.shell import HOLE, Command, Shell, Word
from fp8tune.formats.bash.slurm import (
    TORCHRUN,
    gpus_per_node,
    number_of,
    options_of,
    processes,
    sbatch,
    variables,
)
from fp8tune.formats.bash.words import BadScript
from fp8tune.job import Target
from fp8tune.lint.directive import BadTarget, parse_gpu
from fp8tune.lint.discover import read
from fp8tune.trainers.about import trainers
from fp8tune.trainers.call import Call
from fp8tune.trainers.trainer import Trainer, trainer

ORIGIN = "--script"
"""Who says the GPUs."""

MAX_SCRIPT = 1 << 16
"""Largest script that is read [bytes]; the trainers' own have 4 KiB at most."""

_LATER = ("SLURM_", "PMI_", "OMPI_")
"""Beginnings of variables that only a running job has."""


class CannotLaunch(Exception):
    """The script does not say what it runs; the message says where and why."""


class Launch(NamedTuple):
    """One run of a trainer: its config, its overrides, and the GPUs it gets.

    ``target`` has what is known about the GPUs; ``notes`` say what is odd about them.
    """

    config: str
    overrides: tuple[str, ...]
    target: Target
    line: int
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """The run in one line, as a user would type it."""
        size, gpu = self.target.world_size, self.target.gpu
        count = f"{size or 'an unknown number of'} "
        gpus = f"{gpu} GPU{'s' * (size != 1)}".lstrip()
        kind = "" if gpu else " of unknown type"
        command = shlex.join((self.config, *self.overrides))
        return f"{command}, on {count}{gpus}{kind}"


def read_launch(
    path: str, arguments: tuple[str, ...], environment: Mapping[str, str]
) -> Launch:
    """Return what a script runs with these arguments; raises ``CannotLaunch``.

    Raises ``CannotRead`` if there is no such file.
    """
    data = read(path)
    if len(data) > MAX_SCRIPT:
        raise CannotLaunch(f"{path}: a file of more than 64 KiB is not a launch script")
    text = data.decode(errors="replace").replace("\r\n", "\n")
    script = _Script(path, text, list(arguments), environment)
    try:
        found = list(script.launches())
    except BadScript as error:
        raise CannotLaunch(f"{path}:{error}; instead: {INSTEAD}") from None
    runs = {(one.config, one.overrides, one.target): one for one in reversed(found)}
    if not runs and _is_config(path, data):
        lint = f"fp8tune lint {path}"
        raise CannotLaunch(f"{path}: its flags are the config; check it so: {lint}")
    if not runs:
        launches = (about.launch for about in trainers().values())
        commands = " or ".join(filter(None, launches))
        looked = f"python, torchrun or srun with {commands}"
        raise CannotLaunch(
            f"{path}: no call of a trainer ({looked}); instead: {INSTEAD}"
        )
    if len(runs) > 1:
        lines = " and ".join(str(one.line) for one in reversed(runs.values()))
        raise CannotLaunch(
            f"{path}: different runs on lines {lines}; check each: {INSTEAD}"
        )
    return next(iter(runs.values()))


def _is_config(path: str, data: bytes) -> bool:
    """Return whether a script is a config itself: its flags are all that is read."""
    from fp8tune.formats import format_of, parse
    from fp8tune.formats.document import Unreadable
    from fp8tune.trainers.recognise import recognise

    try:
        values = parse(data, path).values if format_of(path) == "bash" else {}
    except Unreadable:
        return False
    return bool(recognise(values, explicit=True, form="bash").trainer)


INSTEAD = "fp8tune lint CONFIG --gpu h100 --world-size 16 -- OVERRIDES"
"""What to type where a script says too little."""


class _Script:
    def __init__(
        self, path: str, text: str, arguments: list[str], environment: Mapping[str, str]
    ) -> None:
        self.path = path
        self.text = text
        self.options = sbatch(text)
        here = {"SLURM_SUBMIT_DIR": os.getcwd(), "PWD": "."}
        outside = {n: v for n, v in environment.items() if not n.startswith(_LATER)}
        self.shell = Shell(arguments, {**outside, **here, **variables(self.options)})
        self.shell.folder = Word(self.options.get("chdir", ""))

    def launches(self) -> Iterator[Launch]:
        for command in self.shell.commands(self.text):
            for inner in self.shell.nested(command):
                for known in map(trainer, trainers()):
                    words = [word.text for word in inner.words]
                    call = known.command_line.find_call(words)
                    if call:
                        yield self.launch(inner, call, known)

    def launch(self, command: Command, call: Call, known: Trainer) -> Launch:
        """The run that a command starts; raises ``CannotLaunch``."""
        words, line = command.words, command.line
        if call.config >= len(words):
            raise self.fail(line, "the trainer is called without a config")
        self.resolved(words[call.config], line, "the config")
        free_text = known.command_line.is_free_text
        behind = [words[number] for number in call.overrides]
        for word in behind:
            if word.unknown and not free_text(known.schema, word.text):
                self.resolved(word, line, "an override")
        config = self.config(words[call.config].text[call.prefix :], command)
        launcher = words[: call.launcher]
        options = {**self.options, **options_of([word.text for word in launcher])}
        target, notes = _target(options, launcher, f"{self.path}:{line}")
        overrides = tuple(word.text.replace(HOLE, "_") for word in behind)
        return Launch(config, overrides, target, line, tuple(notes))

    def config(self, name: str, command: Command) -> str:
        """Return the path of the config from this folder; raises ``CannotLaunch``."""
        line, folder = command.line, command.folder
        path = os.path.relpath(os.path.join(folder.text, os.path.expanduser(name)))
        if folder.unknown and not os.path.isabs(name):
            self.resolved(folder, line, "the folder of a `cd`")
        if not os.path.exists(path):
            place = os.path.normpath(os.path.join(os.getcwd(), folder.text))
            hint = "run fp8tune in the folder in which you start the script"
            raise self.fail(line, f"no {name} in {place}: {hint}", "")
        return path if path[:3] != "../" else os.path.abspath(path)

    def resolved(self, word: Word, line: int, what: str) -> None:
        """Raise ``CannotLaunch`` for a word that is not known before the run."""
        if word.unknown is None:
            return
        text, reason = word.unknown
        if reason.startswith("is argument"):
            script = f"fp8tune lint --script {self.path} -- ARGUMENTS"
            raise self.fail(line, f"{what} {reason}; add its arguments: {script}", "")
        raise self.fail(line, f"{what} is not known before the run: `{text}` {reason}")

    def fail(self, line: int, reason: str, instead: str = INSTEAD) -> CannotLaunch:
        end = f"; instead: {instead}" if instead else ""
        return CannotLaunch(f"{self.path}:{line}: {reason}{end}")


def _gpu(options: Mapping[str, str]) -> str:
    """Return the GPU that the options name, ``""`` if none or several are named."""
    found = set()
    typed = (
        options.get(name, "") for name in ("gpus-per-node", "gpus", "gpus-per-task")
    )
    gres = (e.partition(":")[2] for e in options.get("gres", "").split(","))
    names = [value.rpartition(":")[0] or value for value in (*typed, *gres)]
    names += re.split(r"[&|,*\[\]()]", options.get("constraint", ""))
    for name in names:
        try:
            found.add(parse_gpu(name) if re.search("[A-Za-z]", name) else "")
        except BadTarget:
            continue
    found.discard("")
    return found.pop() if len(found) == 1 else ""


def _target(
    options: Mapping[str, str], words: list[Word], place: str
) -> tuple[Target, list[str]]:
    """Return the GPUs that a command gets, and notes on odd numbers."""
    nodes, per_node = number_of(options.get("nodes", "1")), gpus_per_node(options)
    names = [word.text.rpartition("/")[2] for word in words]
    torchrun = not TORCHRUN.isdisjoint(names)
    size = processes([word.text for word in words], options)
    asked, notes = nodes * per_node, []
    if size and asked and size != asked:
        started = f"{size} process{'es' * (size != 1)} for {asked} GPUs"
        how = "start one for each GPU, by srun or torchrun"
        notes.append(f"{place}: starts {started}; {how}")
    if not torchrun and "srun" not in names and size > 1:
        how = "which waits for the others; put srun before it"
        notes.append(f"{place}: starts 1 process of {size}, {how}")
    gpu = _gpu(options)
    origins = ORIGIN * bool(gpu), ORIGIN * bool(size)
    return Target(gpu, size, *origins, per_node), notes
