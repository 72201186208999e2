"""Verify one run: read what it left behind, judge it, and name what went wrong."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from fp8tune.config.discover import CannotRead
from fp8tune.config.reader import Config, NotAConfig, read_config
from fp8tune.config.settings import BadSettings
from fp8tune.formats.document import Unreadable
from fp8tune.formats.edits import unified_diff
from fp8tune.job import Target
from fp8tune.lint.rewrite import replace as replace_file
from fp8tune.verify import lines, patterns, trace
from fp8tune.verify import log as logs
from fp8tune.verify.answer import Answer, worst_of
from fp8tune.verify.cause import texts
from fp8tune.verify.causes import diagnose, fixed
from fp8tune.verify.evidence import Log, Trace
from fp8tune.verify.expected import NOTHING, expected
from fp8tune.verify.figures import VERSIONS
from fp8tune.verify.grouping import folder_of, runs_of
from fp8tune.verify.inputs import NoRun, inputs
from fp8tune.verify.measured import calibration, other_settings
from fp8tune.verify.verdict import judge

STDIN = "stdin"
PROFILE = """with torch.profiler around one step of your loop:
  with torch.profiler.profile() as profile: train_step()
  profile.export_chrome_trace("trace.json")"""
"""How to record a profile with a trainer that fp8tune does not know."""
POLL_S = 0.5
"""How often ``--follow`` looks at the log [s]."""


def answer_on(
    config: Config | None, logs: Sequence[Log], traces: Sequence[Trace]
) -> Answer:
    """Judge what was read of one run so far."""
    asked = expected(config) if config else NOTHING
    verdict = judge(logs, traces, asked)
    name = next((log.trainer for log in logs if log.trainer), "")
    if not name and config:
        name = config.trainer.name
    if verdict.word == "cannot-tell":
        verdict.missing = [how_to_profile(name, one) for one in verdict.missing]
        if config is None and verdict.asked is None:
            verdict.missing.append("the train config: --config train.toml")
    if config:
        verdict.contradictions += other_settings(logs, config)
    # a run in bf16 tells nothing of the speed of the FP8 that was asked for
    as_asked = verdict.word == ("verified" if verdict.asked else "not-fp8")
    return Answer(
        verdict,
        name,
        logs,
        traces,
        asked,
        diagnose(logs, traces, config),
        calibration(logs, config) if as_asked else "",
    )


def how_to_profile(trainer: str, missing: str) -> str:
    """Return what is missing, with the lines of the config that would produce it."""
    if "a profile" not in missing:
        return missing
    known = patterns.known().get(trainer)
    return f"{missing}: {known.profile if known and known.profile else PROFILE}"


def verify(
    paths: tuple[str, ...], config: Config | None = None, trainer: str = ""
) -> Answer:
    """Return the answer on a run; raises ``NoRun`` if nothing can be read.

    ``trainer`` is whose log it is, if the user says so. Of several runs it is that on
    the worst, with the answers on all as its ``runs``.
    """
    found = inputs(paths)
    read = []
    for path in found.logs:
        try:
            read.append(_log(path, trainer))
        except NoRun as error:
            if path in paths:
                raise
            print(f"fp8tune: {error}; skipped", file=sys.stderr)
    traces = [_trace(path) for path in found.traces]
    if not read and not traces:
        raise NoRun("no log of these folders can be read; name the file itself")
    runs, lost = runs_of(read, traces)
    if len(runs) == 1:
        _add_versions(read, found.packages)
        return answer_on(config or _only(found.configs), read, traces)
    for path in lost:
        text = f"skipped: of one of {len(runs)} runs; name its log and the trace"
        print(f"fp8tune: {path}: {text}", file=sys.stderr)
    shared = Counter(folder for run in runs for folder in run.folders)
    answers = []
    for run in runs:
        alone = {folder for folder in run.folders if shared[folder] == 1}
        configs = [path for path in found.configs if folder_of(path) in alone]
        answers.append(answer_on(config or _only(configs), run.logs, run.traces))
    return worst_of(answers)


def changed(
    answer: Answer, config: Config, *, to_write: bool, unsafe: bool
) -> Iterator[str]:
    """Yield the lines of the diff of the fixes, or write them and say so."""
    after = fixed(config, answer.causes, unsafe=unsafe)
    if after == config.data:
        left = any(one.fix for one in answer.causes)
        yield "no fix is safe; --unsafe-fixes applies others" if left else "no fix"
    elif to_write:
        replace_file(config.path, config.data, after)
        yield f"{config.path}: fixed"
    else:
        yield from unified_diff(config.path, config.data, after).splitlines()


def _log(path: str, trainer: str, *, growing: bool = False) -> Log:
    """Read a log, or stdin for ``-``; raises ``NoRun``."""
    try:
        if path == "-":
            return logs.read_file(sys.stdin.buffer, STDIN, trainer, texts())
        return logs.read(path, trainer, texts(), growing=growing)
    except lines.Unreadable as error:
        raise NoRun(f"{path}: {error}") from None
    except OSError as error:
        raise NoRun(f"{path}: {error.strerror}") from None


def _add_versions(read: list[Log], packages: list[str]) -> None:
    """Give each log the versions that another one or a list of packages says.

    Left out where they differ.
    """
    others = [_log(path, "") for path in packages]
    for name in (f"{package}_version" for package in VERSIONS):
        said = {
            each.settings[name] for each in (*read, *others) if name in each.settings
        }
        if len(said) == 1:
            for log in read:
                log.settings[name] = next(iter(said))


def _trace(path: str) -> Trace:
    try:
        return trace.read(path)
    except OSError as error:
        raise NoRun(f"{path}: {error.strerror}") from None


def _only(paths: list[str]) -> Config | None:
    """Return the train config in the run's folder, if there is exactly one."""
    configs = []
    for path in paths:
        with suppress(CannotRead, Unreadable, NotAConfig, BadSettings):
            configs.append(read_config(path, Target()))
    return configs[0] if len(configs) == 1 else None


def follow(
    paths: tuple[str, ...],
    config: Config | None,
    trainer: str = "",
    timeout: float | None = None,
) -> Answer:
    """Read one growing log again until the answer is known, it ends, or time is up.

    ``timeout`` is in seconds.
    """
    watched = [path for path in paths if not os.path.isdir(path)]
    if len(watched) != 1 or watched == ["-"]:
        raise NoRun("--follow watches one log; name it, and the trace's folder beside")
    (path,) = watched
    folders = tuple(path for path in paths if os.path.isdir(path))
    end = time.monotonic() + (timeout or math.inf)
    if not os.path.exists(path):
        print(f"fp8tune: waiting for {path}", file=sys.stderr)
    sizes: dict[str, int] = {}
    traces: dict[str, Trace] = {}
    try:
        while (began := time.monotonic()) < end:
            before, sizes = sizes, _sizes(path, folders)
            complete = [
                each
                for each, size in sizes.items()
                if each not in (path, *traces) and before.get(each) == size
            ]
            traces |= {each: _trace(each) for each in complete}
            if complete or sizes.get(path) != before.get(path):
                log = _so_far(path, trainer, growing=True)
                answer = answer_on(config, [log], [*traces.values()])
                told = answer.failed or answer.verdict.word != "cannot-tell"
                if told or log.ended is not None:
                    break
            time.sleep(max(POLL_S, time.monotonic() - began))  # a long log takes long
    except KeyboardInterrupt:
        print("fp8tune: interrupted; this is what is known so far", file=sys.stderr)
    return answer_on(config, [_so_far(path, trainer)], [*traces.values()])


def _so_far(path: str, trainer: str, *, growing: bool = False) -> Log:
    """Read a log that may not be there yet."""
    if not os.path.exists(path):
        return Log(path)
    return _log(path, trainer, growing=growing)


def _sizes(path: str, folders: tuple[str, ...]) -> dict[str, int]:
    """Return the sizes of a log, if it is there, and of the traces in folders."""
    sizes: dict[str, int] = {}
    with suppress(OSError):
        sizes[path] = os.path.getsize(path)
    with suppress(NoRun, OSError):
        sizes |= {each: os.path.getsize(each) for each in inputs(folders).traces}
    return sizes
