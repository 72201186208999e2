"""Workers of a search as jobs of Slurm: submitted, counted, replaced, cancelled.

The workers are one job array. Slurm ends jobs before the search does, by their time
limit or because it has other use for the GPUs, so that this module submits more as long
as too few are queued or running. Jobs that Slurm requeues come back by themselves.

Slurm's programs get an argument list. The batch script is for ``sh``, with every word
quoted. The URL of the storage, which may hold a password, is only in the environment of
the jobs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fp8tune import atomic
from fp8tune.lint.wording import counted, plain
from fp8tune.search import CannotSearch
from fp8tune.search.budget import parse_duration
from fp8tune.search.database import without_password
from fp8tune.search.local_workers import STORAGE
from fp8tune.suggest import closest

SCRIPT = "worker.sbatch"
"""The batch script, in the study's folder."""
LOGS = "slurm-%A_%a.log"
"""What Slurm calls the output of a job, in the study's folder."""
LOG_FILES = "slurm-*.log"
NOTICE_S = 60
"""How long before its time limit a job gets SIGTERM [s]; Slurm may send it up to a
minute early."""
POLL_S = 60.0
"""How often ``squeue`` is asked [s]; it burdens the controller of a large cluster."""
FIRST_LOOK_S = 10.0
"""When it is asked after a submission [s]."""
SHORT_S = 60.0
"""A worker that ends sooner did no trial: it could not start or was refused [s]."""
ANSWER_S = 60.0
"""Slurm's programs wait for a busy controller; after so long they are ended [s]."""
KEYS = (
    *("partition", "gpus", "time", "account", "qos", "constraint", "gres", "mem"),
    *("cpus-per-task", "cpus-per-gpu", "mem-per-cpu", "mem-per-gpu", "nodelist"),
    *("exclude", "reservation", "licenses", "nice", "comment"),
)
"""Long options of sbatch that ``--slurm`` passes on."""
POLL = "poll"
"""The one key of ``--slurm`` that is not sbatch's."""
OF_A_JOB = re.compile(
    r"(SLURM|SBATCH|SQUEUE|SCANCEL)_(?!CONF$)\w*|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES"
    r"|(LOCAL_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_(ADDR|PORT)"
)
"""Variables of the coordinator's own job, and defaults of Slurm's programs: the workers
must not get them."""
NEVER_STARTS = re.compile("PartitionTimeLimit|(QOS|Assoc)MaxWallDurationPerJobLimit")
NEVER = "they never start: end the search, and give it a shorter time="
"""What a job waits for that asks for more time than it may have, and what to do."""
EXAMPLE = "--slurm partition=gpu,gpus=1,time=30m"


class SlurmOptions(NamedTuple):
    """What ``--slurm`` says: options of sbatch, and how often to look [s]."""

    options: Mapping[str, str]
    poll_s: float = POLL_S


def parse(text: str) -> SlurmOptions:
    """Read ``partition=gpu,gpus=1,time=30m``; raises ``CannotSearch``.

    A value may contain commas, as in ``exclude=node1,node2``.
    """
    options: dict[str, str] = {}
    for part in re.split(r",(?=[^,=]+=)", text.strip()):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value:
            what = f"{key!r} has no value" if key else "nothing is asked for"
            raise CannotSearch(f"--slurm: {what}; write {EXAMPLE}")
        if key not in (*KEYS, POLL):
            near = closest(key, (*KEYS, POLL))
            known = f"did you mean {near}?" if near else f"known: {', '.join(KEYS)}"
            raise CannotSearch(f"--slurm: unknown key {plain(key)!r}; {known}")
        if key in options:
            raise CannotSearch(f"--slurm: {key} is given twice")
        if not value.isprintable():
            raise CannotSearch(f"--slurm: {key} has a control character")
        options[key] = value
    if "time" in options:
        options["time"] = _time_limit(options["time"])
    poll_s = parse_duration(options.pop(POLL, f"{POLL_S:.0f}s"))
    return SlurmOptions(options, poll_s)


def _time_limit(text: str) -> str:
    """Return a time limit as Slurm writes it, from ``30m`` or from Slurm's own form.

    0 is Slurm's word for no limit.
    """
    is_of_slurm = re.fullmatch(r"(\d+-)?\d+(:\d\d){0,2}", text)
    try:
        limit_s = _limit_s(text) if is_of_slurm else parse_duration(text)
    except CannotSearch:
        raise CannotSearch(
            f"--slurm: time={plain(text)} is no time limit; write 30m or 2h30m, or as "
            "sbatch does: minutes (30), minutes:seconds (30:00), hours:minutes:seconds "
            "(2:30:00), days-hours (1-12) or days-hours:minutes:seconds (1-12:00:00)"
        ) from None
    if 0 < limit_s < 4 * NOTICE_S:
        raise CannotSearch(
            f"--slurm: time={text} is too short for a trial, because Slurm announces "
            f"the end up to {2 * NOTICE_S} s before; at least {4 * NOTICE_S // 60}m"
        )
    return text if is_of_slurm else str(-(-int(limit_s) // 60))


def _limit_s(text: str) -> float:
    """Return the seconds of a limit in one of sbatch's forms.

    They are minutes, minutes:seconds, hours:minutes:seconds, days-hours,
    days-hours:minutes and days-hours:minutes:seconds.
    """
    days, dash, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if not dash and len(parts) < 3:
        parts = [0, *parts]
    hours, minutes, last = (*parts, 0, 0)[:3]
    return 86400.0 * int(days or 0) + 3600 * hours + 60 * minutes + last


class States(NamedTuple):
    """How many jobs of the workers are running, queued and over."""

    running: int = 0
    queued: int = 0
    ended: int = 0
    reason: str = ""
    """Why Slurm lets a job wait, in its own word, such as Resources."""

    def __str__(self) -> str:
        hint = f"; {NEVER}" * bool(NEVER_STARTS.fullmatch(self.reason))
        why = f" ({plain(self.reason)}{hint})" if self.reason and self.queued else ""
        return f"Slurm: {self.running} running, {self.queued} queued{why}"


class Jobs:
    """The jobs of a search's workers.

    ``command`` is the argument list of a worker, ``folder`` that of the study, which
    the nodes must see too. ``say`` gets notes for the user. Jobs of the same study that
    an earlier coordinator left are taken over.
    """

    def __init__(
        self,
        asked: SlurmOptions,
        workers: int,
        command: Sequence[str],
        storage: str,
        folder: str,
        say: Callable[[str], None],
    ) -> None:
        self.states = States()
        self._asked = asked
        self._workers = workers
        self._command = command
        self._storage = storage
        self._folder = os.path.abspath(folder)
        self._say = say
        name = os.path.basename(self._folder)
        place = zlib.crc32(without_password(storage).encode())
        self._name = f"fp8tune-{name}-{place:08x}"
        self._arrays: set[str] = set()
        self._ran_s: dict[str, float] = {}  # how long each job ran that is not over
        self._ended = 0
        self._short = 0  # jobs that ended too soon, since one did not
        self._next_look = 0.0
        self._said: set[str] = set()

    def start(self) -> None:
        """Submit the workers; raises ``CannotSearch`` if Slurm refuses them."""
        script = os.path.join(self._folder, SCRIPT)
        text = f"#!/bin/sh\nexec {shlex.join(self._command)}\n"
        try:
            atomic.write(script, text.encode())
        except OSError as error:
            raise CannotSearch(f"{script}: {error.strerror}") from None
        try:
            self._look()
            if left := len(self._ran_s):
                self._say(f"{counted(left, 'job')} of an earlier start work on this")
            if left < self._workers:
                self._submit(self._workers - left)
        except Refused as error:
            raise CannotSearch(f"Slurm refused the workers: {error}") from None

    def poll(self) -> str:
        """Look how the jobs are, and submit more if too few are left.

        Call it as often as you like: Slurm is asked once in a while. Returns why there
        will be no worker, else "".
        """
        if time.monotonic() < self._next_look:
            return self._hopeless
        self._next_look = time.monotonic() + self._asked.poll_s
        try:
            before = self.states[:2]
            self._look()
            if self.states[:2] != before:
                self._say(str(self.states))
            missing = self._workers - len(self._ran_s)
            if missing > 0 and not self._hopeless:
                self._submit(missing)
        except Refused as error:
            self._say_once(f"Slurm: {error}; trying again")
        return self._hopeless

    def stop(self) -> None:
        """Cancel the jobs that are left."""
        if not self._arrays:
            return
        cancel = ["scancel", "--quiet", *sorted(self._arrays)]
        try:
            run(cancel)
        except Refused as error:
            self._say(f"Slurm: {error}; to cancel the workers: {shlex.join(cancel)}")
        self._arrays = set()

    def _submit(self, count: int) -> None:
        words = [f"--{key}={value}" for key, value in self._asked.options.items()]
        submit = [
            *("sbatch", "--parsable"),
            f"--array=0-{count - 1}",
            f"--job-name={self._name}",
            f"--output={os.path.join(self._folder.replace('%', '%%'), LOGS)}",
            "--open-mode=append",
            "--requeue",
            f"--signal=B:TERM@{NOTICE_S}",
            "--export=ALL",
            *words,
            os.path.join(self._folder, SCRIPT),
        ]
        answer = run(submit, {STORAGE: self._storage})
        number = answer.strip().partition(";")[0]
        if not number.isdecimal():
            raise Refused(f"sbatch answered {answer.strip()[:80]!r}")
        self._arrays.add(number)
        self._ran_s.update({f"{number}_{task}": 0.0 for task in range(count)})
        self._next_look = time.monotonic() + min(FIRST_LOOK_S, self._asked.poll_s)
        workers = counted(count, "worker")
        if not self._ended:  # once, for who wants to see what was submitted
            self._say(f"Slurm job {number}, {workers}: {shlex.join(submit)}")
        else:
            self._say(f"Slurm job {number}, {workers} in place of those that ended")

    def _look(self) -> None:
        """Ask Slurm for the jobs; raises ``Refused``."""
        mine = [f"--user={os.getuid()}", f"--name={self._name}"]
        form = ["--noheader", "--array", "--format=%F_%K|%T|%M|%r"]
        lines = run(["squeue", *mine, *form]).splitlines()
        jobs = {job: rest for job, *rest in (line.split("|", 3) for line in lines)}
        for job in self._ran_s.keys() - jobs.keys():
            self._ended += 1
            self._short = self._short + 1 if self._ran_s.pop(job) < SHORT_S else 0
        for job, (_, used, _) in jobs.items():
            self._arrays.add(job.partition("_")[0])
            self._ran_s[job] = max(self._ran_s.get(job, 0.0), seconds(used) or 0.0)
        waits = [reason for state, _, reason in jobs.values() if state == "PENDING"]
        telling = [word for word in waits if word not in ("None", "Priority")]
        reason = (telling or waits or [""])[0]
        self.states = States(len(jobs) - len(waits), len(waits), self._ended, reason)

    @property
    def _hopeless(self) -> str:
        """Why more jobs would end at once as well, if so many did; else ""."""
        if self._short < most_short(self._workers):
            return ""
        jobs = f"{self._short} jobs of Slurm"
        return ended_at_once(jobs, self._folder, LOG_FILES)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def most_short(workers: int) -> int:
    """Return after how many workers that ended at once no more are started."""
    return max(3, 2 * workers)


def ended_at_once(workers: str, folder: str, logs: str) -> str:
    """Return that so many workers ended at once, and what to type to see why."""
    why = f"see why: tail {shlex.quote(folder)}/{logs}"
    return f"the last {workers} ended within a minute; {why}"


class Refused(Exception):
    """A program of Slurm's failed; the message is its own, in one line."""


def run(words: list[str], more: Mapping[str, str] | None = None) -> str:
    """Run a program of Slurm's and return its output; raises ``Refused``.

    ``more`` are variables that it gets besides those of this process.
    """
    own = {k: v for k, v in os.environ.items() if not OF_A_JOB.fullmatch(k)}
    try:
        done = subprocess.run(  # noqa: S603, an argument list without a shell
            words,
            env={**own, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
        )
    except FileNotFoundError:
        where = "run this on a machine of the cluster"
        raise Refused(f"no {words[0]} on this machine; {where}") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"{words[0]} did not answer in {ANSWER_S:.0f} s") from None
    if done.returncode:
        lines = [line.removeprefix(f"{words[0]}: ") for line in _lines(done.stderr)]
        text = " ".join(line.removeprefix("error: ") for line in lines)
        raise Refused(text or f"{words[0]} ended with exit code {done.returncode}")
    return done.stdout


def _lines(text: str) -> list[str]:
    return [plain(line.strip()) for line in text.splitlines() if line.strip()]


def seconds(text: str) -> float | None:
    """Return the seconds of Slurm's ``1-02:03:04``, ``02:03:04`` or ``3:04``.

    ``None`` for what is no duration, such as UNLIMITED.
    """
    days, dash, clock = text.strip().rpartition("-")
    parts = clock.split(":")
    known = [*([days] if dash else []), *parts]
    if not all(part.isdecimal() for part in known) or not 2 <= len(parts) <= 3:
        return None
    total = 0.0
    for part in parts:
        total = 60 * total + int(part)
    return total + 86400 * int(days or 0)
