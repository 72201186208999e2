"""One config: its text, the other files of its job, and the job that it describes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fp8tune.config.directive import Directive, directive_of
from fp8tune.config.discover import read
from fp8tune.config.mark import addresses
from fp8tune.config.settings import extra_keys_at, settings_for
from fp8tune.formats import TITLES, format_of, parse
from fp8tune.formats.document import ConfigDocument, InvalidText
from fp8tune.job import Job, Target
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.recognise import chosen, may_be_config, reader
from fp8tune.trainers.trainer import Trainer

if TYPE_CHECKING:
    from fp8tune.config.companions import Apart
    from fp8tune.formats.joined import Joined, Part
    from fp8tune.trainers.call import LaunchScript


class NotAConfig(Exception):
    """The file is not a train config; the message says what it is, or what is wrong."""


class Config:
    """A train config and the job that it describes.

    ``target`` is from the command line and the project; ``job.target`` also includes
    the header comment. ``document`` is the text with those of the other files of the
    job, which are ``files``; ``apart`` are those of other trainers, and ``host`` has
    the values of the one whose part this config is. ``names`` name the trainer: the
    first that is given counts; ``told_by`` says which packages say its release.
    ``overrides`` are arguments behind the config, ``written`` those that stand in
    ``data`` by now. ``script`` is the launch script that has the ``overrides``.
    """

    script: LaunchScript | None = None

    def __init__(
        self,
        path: str,
        data: bytes,
        document: ConfigDocument,
        directive: Directive,
        trainer: Trainer,
        *,
        target: Target,
        overrides: tuple[str, ...],
        names: tuple[str, ...],
        told_by: str,
        files: Joined | None,
        apart: tuple[Apart, ...],
        host: Mapping[str, Any] | None,
    ) -> None:
        self.path, self.data = path, data
        self.document: ConfigDocument = files or document
        self.alone = document
        self.directive = directive
        self.trainer = trainer
        self.target = target
        self.gpus: Target | None = None
        self.overrides = overrides
        self.written: tuple[str, ...] = ()
        self.names, self.told_by = names, told_by
        self.files, self.apart, self.host = files, apart, host

    @cached_property
    def loaded(self) -> Loaded:
        """The config as its trainer would hold it, and what it refuses.

        With the releases of packages that are pinned beside it.
        """
        from fp8tune.trainers.packages import with_releases

        loaded = self.trainer.load(self.document.values, self.overrides)
        loaded = with_releases(loaded, self.trainer.about, self.path)
        if len(self.trainer.about.formats) > 1:
            loaded.values["config_format"] = self.document.format
        if self.host is not None:
            loaded.values["launch_file"] = self.host
        return loaded

    @cached_property
    def job(self) -> Job:
        """The job that the config describes."""
        target = self.gpus or self.directive.complete(self.target)
        return self.trainer.job(self.loaded, target)

    @property
    def typed_path(self) -> str:
        """The path that a user types: that of the launch script, else the config's."""
        return self.script.path if self.script else self.path

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files that are read as one document, the config first."""
        if self.files:
            return self.files.parts
        from fp8tune.formats.joined import Part

        return (Part("", self.path, self.alone),)

    @property
    def bytes_by_path(self) -> dict[str, bytes]:
        """The bytes of each file of the job, of the one that a user types first."""
        script = self.script
        found = {script.path: script.data} if script else {}
        for part in self.parts:
            bom = chr(0xFEFF) * part.document.bom
            found[part.path] = f"{bom}{part.document.text}".encode()
        return found | {self.path: self.data}

    def line(self, key: str) -> int:
        """Return the line of a key, section or value, 0 if it is not in the file."""
        span = self.document.span(tuple(key.split(".")), "value")
        return self.document.lines.position(span[0]).line if span else 0

    def own(self, name: str) -> Any:
        """Return the value of a key or field as knobs have it: words as text.

        Raises ``Unknown``.
        """
        value = self.job[name]
        return str(value) if isinstance(value, str) else value

    def on(self, target: Target) -> Config:
        """Return the config on these GPUs, whatever its header comment says."""
        return self._copy(gpus=target, without=("job",))

    def having(self, **changes: Any) -> Config:
        """Return the config with other attributes, and load it again."""
        return self._copy(**changes, without=("loaded", "job"))

    def _copy(self, *, without: tuple[str, ...], **changes: Any) -> Config:
        """Return a copy with other attributes, which computes some again."""
        config = Config.__new__(Config)
        kept = {name: v for name, v in vars(self).items() if name not in without}
        vars(config).update(kept | changes)
        return config


def config_of(
    path: str,
    data: bytes,
    target: Target,
    *,
    only: str | Trainer = "",
    usual: str = "",
    explicit: bool = True,
    overrides: tuple[str, ...] = (),
    beside: Sequence[str] = (),
    loader: str = "",
    host: Mapping[str, Any] | None = None,
) -> Config:
    """Read the bytes of a config, and the other files of its job.

    ``target`` is what the command line and the project say; the file's header comment
    fills what it leaves open. ``only`` names or is the trainer instead of recognising
    it, ``usual`` names it where the header comment does not; ``explicit`` says that the
    user named the file. ``overrides`` are the arguments that the trainer gets behind
    the config, or those of a script that is the config; ``beside`` are the other files
    of its job that the command line names. ``host`` has the values of the file of which
    it is a part; then its header comment names no others. ``loader`` is what reads it
    if not its trainer's own. Raises ``InvalidText``, ``Unreadable`` and ``NotAConfig``.
    """
    form = format_of(path)
    given, only = (only, only.id) if isinstance(only, Trainer) else ("", only)
    if form != "toml" and not (explicit or only):
        text = data.decode(errors="replace")
        says = form == "yaml" and addresses(text)
        if not (says or may_be_config(text, explicit=False, form=form)):
            raise NotAConfig(f"{TITLES[form]} without a trainer's keys")
    document = parse(data, path, overrides)
    if form == "bash":
        overrides = ()
    directive = directive_of(document, beside=host is None)
    names = (only, directive.trainer, usual)
    kind = chosen(document, names, explicit=explicit, loader=loader)
    if not kind.trainer or (kind.fragment and not explicit):
        raise NotAConfig(kind.description)
    extra = (*directive.extra_keys, *extra_keys_at(path))
    trainer, told_by = reader(given or kind.trainer, names, path, extra)
    files: Joined | None = None
    apart: tuple[Apart, ...] = ()
    about = trainer.about
    beside = beside if explicit or about.parts else ()
    if any((about.parts, about.named, directive.beside, beside)):
        from fp8tune.config.companions import whole

        job = whole(path, document, directive, trainer, beside, only)
        files, directive, apart = job
        host = host or job.host
    return Config(
        path,
        data,
        document,
        directive,
        trainer,
        target=target,
        overrides=overrides,
        names=names,
        told_by=told_by,
        files=files,
        apart=apart,
        host=host,
    )


def config_at(
    path: str, data: bytes, target: Target, *, explicit: bool = True, **how: Any
) -> Config:
    """Read the bytes of a config with the settings of its project.

    These say what ``target``, from the command line, leaves open; and the trainer, of a
    file that the user named. ``how`` and errors are as for ``config_of``, and
    ``BadSettings``.
    """
    settings = settings_for(os.path.dirname(os.path.abspath(path)))
    usual, target = settings.trainer * explicit, settings.complete(target)
    return config_of(path, data, target, usual=usual, explicit=explicit, **how)


def read_config(
    path: str,
    target: Target,
    overrides: tuple[str, ...] = (),
    whose: str = "",
    beside: Sequence[str] = (),
) -> Config:
    """Read a config that the user names, ``-`` for stdin, with its project's settings.

    ``whose`` is the trainer that the command line names, ``beside`` are the files of
    the same job that it names, ``overrides`` the trainer's own arguments. Raises
    ``CannotRead``, ``Unreadable``, ``BadSettings`` and ``NotAConfig``.
    """
    data = read(path)
    try:
        how: dict[str, Any] = {"overrides": overrides, "beside": beside}
        config = config_at(path, data, target, only=whose, **how)
        _ = config.loaded  # refuses overrides that are not followed
    except InvalidText as error:
        line, column = error.position
        raise NotAConfig(f"{path}:{line}:{column}: {error.reason}") from None
    except NotAConfig as error:
        raise NotAConfig(f"{path}: {error}") from None
    for other in config.apart:
        if not other.only and other.path in beside:
            reason = f"a config of {other.title}, which is read alone"
            raise NotAConfig(f"--with {other.path}: {reason}")
    if any(other.joined for other in config.apart):  # no estimate covers both
        return config.having(document=config.alone, files=None)
    return config
