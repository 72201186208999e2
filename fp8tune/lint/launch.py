"""Read what a launch script runs: the trainer's config, overrides, and GPUs.

The script is read, never run. GPUs come from ``#SBATCH`` lines, ``srun`` and
``torchrun``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from fp8tune.config.directive import gpu_of
from fp8tune.config.discover import CannotRead, read
from fp8tune.fields import VARIABLES
from fp8tune.formats import ENDINGS, format_of, parse
from fp8tune.formats.bash.environment import environment
from fp8tune.formats.bash.shell import Command, Shell
from fp8tune.formats.bash.slurm import (
    TORCHRUN,
    gpus_per_node,
    number_of,
    options_of,
    processes,
    sbatch,
    variables,
)
from fp8tune.formats.bash.values import Word
from fp8tune.formats.bash.words import BadScript
from fp8tune.formats.document import HOLE, InvalidText, Unreadable
from fp8tune.job import Target
from fp8tune.trainers.about import CallAbout, launchers, trainers
from fp8tune.trainers.call import NO_PROGRAM, Call, Program, calls
from fp8tune.trainers.recognise import recognise
from fp8tune.trainers.trainer import Trainer, trainer

ORIGIN = "--script"
"""Who says the GPUs."""

MAX_SCRIPT = 1 << 16
"""Largest script that is read [bytes]; the trainers' own have 4 KiB at most."""

MODULE = ("-m", "--module")
"""Options of launchers whose program is a module."""

MAX_NOTE = 200
"""Longest list of arguments in a note [characters]."""

_OVERRIDE = re.compile(r"(?!-)|--\w+\.")
"""A word that is no flag, or one that sets a key of a section."""

_LATER = ("SLURM_", "PMI_", "OMPI_")
"""Beginnings of variables that only a running job has."""


class CannotLaunch(Exception):
    """The script does not say what it runs; the message says where and why."""


class Launch(NamedTuple):
    """One run of a trainer: its config, its overrides, and the GPUs it gets.

    ``target`` has what is known about the GPUs; ``notes`` say what is odd about them.
    ``beside`` are the other files of the job. If ``is_script``, the script's flags are
    the config. ``program`` is what a trial starts in its place.
    """

    config: str
    overrides: tuple[str, ...]
    target: Target
    line: int
    notes: tuple[str, ...]
    beside: tuple[str, ...] = ()
    is_script: bool = False
    program: Program = NO_PROGRAM

    @property
    def arguments(self) -> str:
        """What names the run to a command of fp8tune."""
        size, gpu = self.target.world_size, self.target.gpu
        options = [("--with", path) for path in self.beside]
        options += [("--gpu", gpu)] * bool(gpu)
        options += [("--world-size", str(size))] * bool(size)
        behind = ("--", *self.overrides) if self.overrides else ()
        words = self.config, *(word for option in options for word in option), *behind
        return shlex.join(word.replace(HOLE, "_") for word in words)

    @property
    def words(self) -> str:
        """The run in one line, as a user would type it, on the GPUs that it names."""
        size, gpu = self.target.world_size, self.target.gpu
        words = (str(size or ""), gpu, f"GPU{'s' * (size != 1)}")
        gpus = f", on {' '.join(filter(None, words))}" * bool(size or gpu)
        others = (word for path in self.beside for word in ("--with", path))
        overrides = (word.replace(HOLE, "_") for word in self.overrides)
        command = shlex.join((self.config, *others, *overrides))
        return f"{command}{gpus}"


def read_launch(
    path: str, arguments: tuple[str, ...], outside: Mapping[str, str]
) -> Launch:
    """Return what a script runs with these arguments; raises ``CannotLaunch``.

    ``outside`` are the variables with which it is started. Where the script's flags are
    the config, it is the config itself. Raises ``CannotRead`` if there is no such file.
    """
    data = read(path)
    if len(data) > MAX_SCRIPT:
        raise CannotLaunch(f"{path}: a file of more than 64 KiB is not a launch script")
    text = data.decode(errors="replace").replace("\r\n", "\n")
    script = _Script(path, text, list(arguments), outside)
    try:
        found = list(script.launches())
    except BadScript as error:
        raise CannotLaunch(f"{path}:{error}; instead: {INSTEAD}") from None
    runs = {
        one._replace(line=0, notes=(), program=NO_PROGRAM): one
        for one in reversed(found)
    }
    if not runs:
        return _itself(path, data, arguments)
    if len(runs) > 1:
        lines = " and ".join(str(one.line) for one in reversed(runs.values()))
        raise CannotLaunch(
            f"{path}: different runs on lines {lines}; check each: {INSTEAD}"
        )
    return next(iter(runs.values()))


def _itself(path: str, data: bytes, arguments: tuple[str, ...]) -> Launch:
    """Return the run of a script that is its own config; raises ``CannotLaunch``."""
    try:
        values = parse(data, f"{path}.sh", arguments).values
    except Unreadable as error:
        raise CannotLaunch(f"{path}: {error}") from None
    kind = recognise(values, explicit=True, form="bash")
    if not kind.trainer:
        what = f"no train config of a known trainer: {kind.description}"
        raise CannotLaunch(f"{path}: {what}")
    if format_of(path) != "bash":
        reason = "its flags are the config: give it a name that ends in .sh"
        raise CannotLaunch(f"{path}: {reason}")
    return Launch(path, arguments, Target(), 0, (), is_script=True)


def instead_of(path: str, outside: Mapping[str, str]) -> str:
    """Return what to say of a script that is no config itself."""
    try:
        launch = read_launch(path, (), outside)
    except (CannotLaunch, CannotRead) as error:
        return str(error)
    script = f"fp8tune lint --script {path}"
    return f"{path}: it runs {launch.config}; check that: {script}"


def _values(path: str, data: bytes) -> dict[str, Any]:
    """Return what a file says, nothing if it cannot be read."""
    try:
        return parse(data, path).values
    except (InvalidText, Unreadable):
        return {}


def _has_known_arguments(script: list[Word], known: Trainer) -> bool:
    """Return whether a script is one of which a trainer knows all arguments."""
    reads = getattr(known.command_line, "is_known_script", None)
    return reads is not None and any(reads(word.text) for word in script)


def _run_by(known: Trainer, config: str) -> Trainer:
    """Return the trainer that a call runs: that of its config, if it may be any."""
    if not known.about.parts:
        return known
    values, form = _values(config, read(config)), format_of(config)
    found = recognise(values, explicit=True, form=form).trainer
    return trainer(found) if found else known


def _not_applied(texts: list[str], place: str) -> str:
    """Return the note that names the arguments that fp8tune does not apply."""
    words = shlex.join(text.replace(HOLE, "_") for text in texts)
    words = words if len(words) < MAX_NOTE else words[:MAX_NOTE] + "..."
    return f"{place}: not applied: {words}; findings may differ"


INSTEAD = "fp8tune lint CONFIG --gpu h100 --world-size 16 -- OVERRIDES"
"""What to type where a script says too little."""


class _Start(NamedTuple):
    """A command that runs a trainer."""

    command: Command
    trainer: Trainer
    kind: CallAbout
    call: Call

    @property
    def names_config(self) -> bool:
        """Whether a word of the command is the config."""
        return 0 <= self.call.config < len(self.command.words)

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        """What sorts the calls that a command may be: the most specific is last."""
        special = not self.kind.is_general
        size = len(" ".join(self.kind.program))
        return self.names_config, special, size, -self.call.launcher


def _program_of(one: _Start) -> int:
    """Return the number of the word that is the program of a command."""
    return one.call.launcher + len(one.kind.program) - 1


def _best(command: Command) -> _Start | None:
    """Return the trainer that a command runs: the most specific of its calls."""
    words = [word.text for word in command.words]
    found = [
        _Start(command, trainer(name), kind, call)
        for name, about in trainers().items()
        for kind, call in calls(about, words)
    ]
    best = max(found, key=lambda one: one.rank, default=None)
    if best is None or best.names_config:
        return best
    program = best.kind.program
    script = program[0].endswith(".py") and not best.kind.is_general
    own = all(map(_OVERRIDE.match, words[best.call.launcher + 1 :]))
    return best if (script and own) or len(program) > 1 else None


class _Script:
    def __init__(
        self, path: str, text: str, arguments: list[str], outside: Mapping[str, str]
    ) -> None:
        self.path = path
        self.text = text
        self.options = sbatch(text)
        here = {"SLURM_SUBMIT_DIR": os.getcwd(), "PWD": "."}
        outside = {n: v for n, v in outside.items() if not n.startswith(_LATER)}
        self.shell = Shell(arguments, {**outside, **here, **variables(self.options)})
        self.shell.folder = Word(self.options.get("chdir", ""))

    def launches(self) -> Iterator[Launch]:
        """Yield what the calls of trainers run; of general ones if there is no other.

        Raises ``CannotLaunch``.
        """
        each = [
            found
            for command in self.shell.commands(self.text)
            for inner in self.shell.nested(command)
            if (found := _best(inner))
        ]
        complete = [one for one in each if one.names_config]
        own = [one for one in complete if not one.kind.is_general]
        for one in own or complete or each:
            yield self.launch(one)

    def launch(self, one: _Start) -> Launch:
        """The run that a command starts; raises ``CannotLaunch``."""
        command, known, kind, call = one
        words, line = command.words, command.line
        if not one.names_config:
            title = known.about.title
            raise self.fail(line, f"{title} is called without a config")
        self.resolved(words[call.config], line, "the config")
        config = self.config(words[call.config].text[call.prefix :], command)
        behind = [words[number] for number in call.overrides]
        beside, absent = list[str](), list[str]()
        program = NO_PROGRAM
        if known.about.parts:
            program = self.program(one)
            script = [words[number] for number in call.script]
            if not kind.script:
                behind, script = [], [words[_program_of(one)], *behind]
            mine, beside, absent = self.files(script, command, known, config)
            script = [word for word in script if word not in mine]
            if len(script) > 1 or _has_known_arguments(script, known):
                behind += script
        launcher = words[: call.launcher]
        options = {**self.options, **options_of([word.text for word in launcher])}
        place = f"{self.path}:{line}"
        target, notes = _target(options, one, [config, *beside], place)
        target = target._replace(environment=_variables(launcher, command))
        run = _run_by(known, config)
        overrides: tuple[str, ...] = ()
        if run.name != known.name:
            behind = behind[1:]  # the program
        if run.command_line:
            overrides = tuple(self.overrides(behind, run, line))
        elif behind:
            notes.append(_not_applied([word.text for word in behind], place))
        notes += [f"{place}: no {name} here: it is not checked" for name in absent]
        files = tuple(notes), tuple(beside)
        return Launch(config, overrides, target, line, *files, program=program)

    def program(self, one: _Start) -> Program:
        """Return what a command starts, with the paths of files from this folder."""
        command, _, kind, call = one
        words = command.words
        script = [words[number] for number in call.script]
        options = [words[number] for number in call.overrides]
        before = words[_program_of(one) + 1 : min(call.script, default=0)]
        if not kind.script:
            options, script = [], words[_program_of(one) :]
        elif any(word.text in MODULE for word in before):
            script = [Word(MODULE[0]), *script]
        placed = (self.placed(word, command) for word in script)
        folder = os.path.relpath(command.folder.text or ".")
        return Program(
            tuple(word.text for word in options),
            tuple(placed),
            tuple(environment(words[: call.launcher], command.given).items()),
            "" if folder == os.curdir else folder,
        )

    def placed(self, word: Word, command: Command) -> str:
        """Return a word, or the path from this folder if it names a file."""
        option, equals, name = word.text.rpartition("=")
        path = self.path_of(name, command)
        known = not word.unknown and os.path.isfile(path)
        return f"{option}{equals}{path}" if known else word.text

    def overrides(self, words: list[Word], known: Trainer, line: int) -> Iterator[str]:
        """Yield the overrides as the trainer's ``command_line`` takes them.

        Raises ``CannotLaunch`` for one that is not known before the run and must be.
        """
        free_text = getattr(known.command_line, "is_free_text", None)
        for word in words:
            if free_text and word.unknown and not free_text(known.schema, word.text):
                self.resolved(word, line, "an override")
            yield word.text.replace(HOLE, "_") if free_text else word.text

    def files(
        self, words: list[Word], command: Command, known: Trainer, config: str
    ) -> tuple[list[Word], list[str], list[str]]:
        """Return the words that name other files of a job, and the paths of these.

        Then the names of files that are not there.
        """
        from fp8tune.config.companions import is_of_job

        mine, paths, absent = list[Word](), list[str](), list[str]()
        for before, word in pairwise([Word(""), *words]):
            option, equals, value = word.text.partition("=")
            name = value if equals and option.startswith("-") else word.text
            if word.unknown or ENDINGS.get(os.path.splitext(name)[1]) is None:
                continue
            path = self.path_of(name, command)
            if not os.path.exists(path):
                absent.append(name)
            explicit = "--config" in (option, before.text)
            if (
                path != config
                and os.path.isfile(path)
                and is_of_job(path, known, explicit=explicit)
            ):
                paths.append(path)
                named = not equals and before.text.startswith("-")
                mine += [before, word] if named else [word]
        return mine, paths, absent

    def config(self, name: str, command: Command) -> str:
        """Return the path of the config from this folder; raises ``CannotLaunch``."""
        line, folder = command.line, command.folder
        path = self.path_of(name, command)
        if folder.unknown and not os.path.isabs(name):
            self.resolved(folder, line, "the folder of a `cd`")
        if not os.path.exists(path):
            place = os.path.normpath(os.path.join(os.getcwd(), folder.text))
            hint = "run fp8tune in the folder in which you start the script"
            raise self.fail(line, f"no {name} in {place}: {hint}", "")
        return path

    @staticmethod
    def path_of(name: str, command: Command) -> str:
        """Return the path of a file from this folder."""
        whole = os.path.join(command.folder.text, os.path.expanduser(name))
        path = os.path.relpath(whole)
        return path if path[:3] != "../" else os.path.abspath(path)

    def resolved(self, word: Word, line: int, what: str) -> None:
        """Raise ``CannotLaunch`` for a word that is not known before the run."""
        if word.unknown is None:
            return
        text, reason = word.unknown[:2]
        if word.unknown.argument:
            script = f"fp8tune lint --script {self.path} -- ARGUMENTS"
            raise self.fail(line, f"{what} {reason}; add its arguments: {script}", "")
        raise self.fail(line, f"{what} is not known before the run: `{text}` {reason}")

    def fail(self, line: int, reason: str, instead: str = INSTEAD) -> CannotLaunch:
        end = f"; instead: {instead}" if instead else ""
        return CannotLaunch(f"{self.path}:{line}: {reason}{end}")


def _variables(launcher: list[Word], command: Command) -> tuple[tuple[str, str], ...]:
    """Return the variables that rules ask for and the script certainly exports."""
    values = environment(launcher, command.given)
    return tuple((name, values[name]) for name in VARIABLES if name in values)


def _target(
    options: Mapping[str, str], one: _Start, files: list[str], place: str
) -> tuple[Target, list[str]]:
    """Return the GPUs that a command gets, and notes on odd numbers.

    ``files`` may say how many processes a launcher starts.
    """
    kind, call = one.kind, one.call
    words = [word.text for word in one.command.words[: call.launcher]]
    nodes, per_node = number_of(options.get("nodes", "1")), gpus_per_node(options)
    names = [word.rpartition("/")[2] for word in words]
    notes: list[str] = []
    torchrun = not TORCHRUN.isdisjoint(names)
    by_config = {name for name, starts in launchers().items() if starts == "config"}
    if kind.starts == "config" or (not torchrun and by_config & {*names}):
        said = _said(one, files)
        alone = nodes == 1 and not kind.script  # with a file, the number is in it
        size = number_of(said) if said else per_node * alone
        asked = nodes * per_node
        notes = _odd(size, asked, place, f"set num_processes to {asked}")
    elif kind.starts == "one" or torchrun:
        size = processes(words, options)
        notes = _odd(size, nodes * per_node, place)
        if not torchrun and "srun" not in names and size > 1:
            how = "which waits for the others; put srun before it"
            notes.append(f"{place}: starts 1 process of {size}, {how}")
    elif kind.starts == "all" and (nodes == 1 or "srun" in names):
        size = nodes * (number_of(call.processes) if call.processes else per_node)
    else:
        size = 0
    gpu = gpu_of(options)
    origins = ORIGIN * bool(gpu), ORIGIN * bool(size)
    return Target(gpu, size, *origins, per_node), notes


def _said(one: _Start, files: list[str]) -> str:
    """Return what a command, else a file, says of the number of processes."""
    behind = one.call.script if one.kind.script else ()
    words = [word.text for word in one.command.words[: min(behind, default=None)]]
    option = re.compile("--num[_-]processes(?:=(.*))?", re.DOTALL)
    for word, following in pairwise([*words, ""]):
        if found := option.fullmatch(word):
            return following if found[1] is None else found[1]
    values = (_values(path, read(path)) for path in files if os.path.isfile(path))
    return next((str(v["num_processes"]) for v in values if "num_processes" in v), "")


def _odd(
    size: int,
    asked: int,
    place: str,
    how: str = "start one for each GPU, by srun or torchrun",
) -> list[str]:
    """Return a note if a job has another number of processes than of GPUs."""
    if not (size and asked) or size == asked:
        return []
    started = f"{size} process{'es' * (size != 1)} for {asked} GPUs"
    return [f"{place}: starts {started}; {how}"]
