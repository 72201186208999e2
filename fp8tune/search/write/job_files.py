"""Write the chosen values into the files of a job, each where it belongs.

A value is written into the file that holds it: the launch script that types it as a
flag, else the config or the file of its section. A tuned file that is no longer named
as before is named in the files that name it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.formats import parse
from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.joined import Joined, Part
from fp8tune.search.write.script import (
    Script,
    Words,
    flag_of,
    replaced,
    typed,
    value_of,
)
from fp8tune.search.write.writeback import (
    CannotWrite,
    Choice,
    commented,
    moved,
    notes,
    without_own,
    write_back,
)
from fp8tune.trainers.call import LaunchScript
from fp8tune.words import plain

NAMES = "names the tuned file"
"""Reason of a value that is the name of another tuned file."""
OF_JOB = "of the job ("
"""How the comment begins that names the files of a job of several."""
_BOM = "\ufeff"

Name = Callable[[str], str]
"""Returns where the tuned version of a file is written."""


class Tuned(NamedTuple):
    """A file of a job before and after a search, and the arguments that it then has.

    ``notes`` is Markdown beside a file whose format has no comments.
    """

    path: str
    before: bytes
    after: bytes
    notes: bytes = b""


def name_of_job(config: Config, path: str) -> str:
    """Return the files of a job as comments in one of them name it.

    ``""`` for a config that is alone.
    """
    folder, files = os.path.dirname(path) or ".", config.bytes_by_path
    names = ", ".join(os.path.relpath(each, folder) for each in files)
    return f"{OF_JOB}{plain(names)})" if len(files) > 1 else ""


def changing(config: Config, keys: Iterable[str], name: Name) -> Iterator[str]:
    """Yield the files that change where other values of keys are written."""
    writer = _Writer(config, [Choice(key, None) for key in keys], name)
    if config.script and (writer.typed or any(map(writer.is_renamed, writer.names))):
        yield config.script.path
    yield from writer.names


def write_job(
    config: Config,
    choices: Sequence[Choice],
    summary: Sequence[str] = (),
    name: Name = lambda path: path,
) -> tuple[list[Tuned], Config]:
    """Return the files that change, the one that is run first, and the tuned config.

    ``name`` says where a changed file is written. The trainer reads exactly the chosen
    values, and all others as before. Raises ``CannotWrite``.
    """
    return _Writer(config, choices, name).written(summary)


class _Writer:
    """One job with its choices by file: the script's, and those of each part."""

    def __init__(self, config: Config, choices: Sequence[Choice], name: Name) -> None:
        self.config, self.parts = config, config.parts
        self.typed: list[Choice] = []
        self.of_part: list[list[Choice]] = [[] for _ in self.parts]
        self.names: dict[str, str] = {}
        """The new name of each part that changes, by its path."""
        self.wanted = {choice.key: choice.value for choice in choices}
        for choice in choices:
            self._take(choice)
        for index in reversed(range(len(self.parts))):  # files before what names them
            path = self.parts[index].path
            if self.of_part[index] or (index == 0 and self._named_in_comment()):
                self.names[path] = os.path.basename(name(path))
                if self.is_renamed(path) and not self._name_by_keys(self.parts[index]):
                    self._check_named(path)

    def is_renamed(self, path: str) -> bool:
        """Return whether a part that changes gets another name."""
        return self.names[path] != os.path.basename(path)

    def _take(self, choice: Choice) -> None:
        """Put a choice into the file that holds its key."""
        config, path = self.config, choice.path
        sections = [part.section for part in self.parts]
        arguments = config.loaded.arguments if config.script else {}
        about = config.trainer.about.parts.get(path[0])
        if path in arguments:
            self.typed.append(choice)
        elif path[0] in sections and len(path) > 1:
            local = choice._replace(key=".".join(path[1:]))
            self.of_part[sections.index(path[0])].append(local)
        elif about and any(each[0] == path[0] for each in arguments):
            self.typed.append(choice)
        elif about or "" not in sections:
            what = about.title if about else "the launch file"
            raise CannotWrite(f"{choice.key}: no file of the job has {what}")
        else:
            self.of_part[sections.index("")].append(choice)

    def _check_named(self, path: str) -> None:
        """Raise ``CannotWrite`` if the launch script could not name the tuned file."""
        script = self.config.script
        with suppress(InvalidText, UnicodeDecodeError):
            if script and not Script(script.data.decode()).names(path):
                where = f"{script.path}: its command does not name {path}"
                raise CannotWrite(f"{where}, so it would not read the tuned file")

    def _name_by_keys(self, part: Part) -> bool:
        """Put the new name of a part's file into the keys that name it, if any do."""
        old, new = os.path.basename(part.path), self.names[part.path]
        is_named = False
        about = self.config.trainer.about.parts.get(part.section)
        for key in about.named_by if about else ():
            value = _value(self.config.document.values, key)
            if isinstance(value, str) and os.path.basename(value) == old:
                named = f"{value.removesuffix(old)}{new}"
                self._take(Choice(key, named, NAMES))
                self.wanted[key] = named
                is_named = True
        return is_named

    def _named_in_comment(self) -> dict[str, str]:
        """Return what the header comment says of other files, and will say."""
        folder = os.path.dirname(self.parts[0].path)
        beside = {
            os.path.normpath(os.path.join(folder, name)): name
            for name in self.config.directive.beside
        }
        words = {}
        for path, new in self.names.items():
            old = beside.get(os.path.normpath(path), "")
            if old and os.path.basename(old) != new:
                named = f"{old.removesuffix(os.path.basename(old))}{new}"
                words[f"with={old}"] = f"with={named}"
        return words

    def written(self, summary: Sequence[str]) -> tuple[list[Tuned], Config]:
        """Return the changed files, and the config that they are."""
        config = self.config
        files: list[Tuned] = []
        if config.script:
            block = self._block(summary, config.script.path, leads=True)
            tuned, typed = self._script(config.script, block)
            files += [tuned] if tuned.before != tuned.after else []
            overrides, options, words = map(tuple, typed)
            program = config.script.program._replace(options=options, words=words)
            script = LaunchScript(tuned.path, tuned.after, program)
            config = config.having(script=script, overrides=overrides)
        every = []
        for index in range(len(self.parts)):
            block = self._block(summary, self.parts[index].path, leads=not files)
            every.append(self._part(index, block))
            files += [every[-1]] if every[-1].before != every[-1].after else []
        texts = (tuned.after.decode().removeprefix(_BOM) for tuned in every)
        pairs = zip(self.parts, texts, strict=True)
        parts = [p._replace(document=p.document.read(text)) for p, text in pairs]
        joined = Joined(parts) if config.files else None
        alone = parts[0].document
        config = config.having(
            data=every[0].after, alone=alone, document=joined or alone, files=joined
        )
        self._prove(config)
        return files, config

    def _block(self, summary: Sequence[str], path: str, *, leads: bool) -> list[str]:
        """Return the block of a file: the summary if it leads its job, and the job."""
        name = name_of_job(self.config, path) if summary else ""
        return [*(summary if leads else ()), *filter(None, [name])]

    def _part(self, index: int, summary: Sequence[str]) -> Tuned:
        """Return a file that is read, before and after."""
        part, choices = self.parts[index], self.of_part[index]
        document = part.document
        before = self.config.bytes_by_path[part.path]
        about = self.config.trainer.about
        reads = about.parts[part.section].reads if part.section in about.parts else ""
        after, path = before, part.path
        if choices:
            reads = reads or about.reads
            after = write_back(before, choices, summary, path=path, reads=reads)
        words = self._named_in_comment() if index == 0 else {}
        if words:
            text = after.decode()
            for old, new in words.items():
                text = text.replace(old, new, 1)
            if not choices:
                changed = parse(text.encode(), path)
                place = changed.text.index(next(iter(words.values())))
                text = commented(changed, [(place, Choice("with", "", NAMES))], summary)
                text = f"{_BOM * document.bom}{text}"
            after = text.encode()
        named = self.names.get(path, os.path.basename(path))
        is_silent = document.format == "json" and before != after
        said = notes(named, choices, summary) if is_silent else b""
        return Tuned(path, before, after, said)

    def _script(
        self, script: LaunchScript, summary: Sequence[str]
    ) -> tuple[Tuned, list[Words]]:
        """Return the launch script before and after, and its arguments then.

        These are all of them, the launcher's options, and the words of its program.
        """
        path, data, program = script
        lists = [list(self.config.overrides), [*program.options], [*program.words]]
        arguments = self.config.loaded.arguments
        try:
            text = data.decode()
            now = Script(without_own(text, Script(text).comments()))
            places: list[tuple[int, Choice]] = []
            for choice in self.typed:
                argument = arguments.get(choice.path)
                if argument and value_of(argument) == typed(argument, choice.value):
                    continue
                if argument:
                    edits = now.set_argument(argument, choice.value)
                    lists = [replaced(w, argument, choice.value) for w in lists]
                else:
                    new = [f"--{choice.path[-1]}", str(choice.value)]
                    behind = map(flag_of, arguments.values())
                    edits = now.add(new, behind)
                    lists = [[*lists[0], *new], lists[1], [*lists[2], *new]]
                now, places = _after(now, edits, choice, places)
            for old, new_name in self.names.items():
                if self.is_renamed(old) and now.names(old):
                    named = Choice(
                        os.path.basename(old), new_name, f"{NAMES} {new_name}"
                    )
                    now, places = _after(now, now.rename(old, new_name), named, places)
            text = commented(now, places, summary) if places else text
        except (CannotEdit, InvalidText, Unreadable, UnicodeDecodeError) as error:
            raise CannotWrite(str(error)) from None
        return Tuned(path, data, text.encode()), lists

    def _prove(self, tuned: Config) -> None:
        """Raise ``CannotWrite`` if the trainer does not read what is wanted."""
        known = dict(self.config.trainer.schema.dotted_keys())
        before, after = self.config.loaded, tuned.loaded
        refused = {".".join(map(str, fault.path)) for fault in after.faults}
        as_before = {k: before.values[k] for k in before.written if k in before.values}
        for key, value in {**as_before, **self.wanted}.items():
            changed = any(each.startswith(f"{key}.") for each in self.wanted)
            if changed or key in refused or key not in known:
                continue
            gone = value is None and key not in after.written
            if not gone and after.values.get(key) != value:
                raise CannotWrite(f"`{key}` cannot be set in this layout")


def _after(
    script: Script,
    edits: Sequence[Edit],
    choice: Choice,
    places: Sequence[tuple[int, Choice]],
) -> tuple[Script, list[tuple[int, Choice]]]:
    """Return a script after edits, and the places of all choices in it."""
    before = [(moved(place, edits), each) for place, each in places]
    first = min(edit.start for edit in edits)
    return script.read(apply(script.text, edits)), [*before, (first, choice)]


def _value(values: Any, key: str) -> Any:
    for name in key.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values
