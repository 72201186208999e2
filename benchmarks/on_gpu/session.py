"""A session on a machine with a GPU: steps under deadlines, packed as they end.

``python -m benchmarks.on_gpu.session first|next|last OUT [CHECKOUT]``;
``benchmarks/gpu_session.sh`` says what the arguments and variables mean. Needs the
standard library alone until it has installed the wheels. A step that has finished is
not run again, so a command can be repeated after a fix.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.on_gpu.archive import files_below, pack
from benchmarks.paths import ROOT, commit, python_path

PACK_S = 20.0
"""How often results are packed while a step runs [s]."""
END_S = 12.0
"""Kept of a command's time to end what runs and to pack [s]."""
DOCTOR_S = 150.0
"""How long the doctor has [s]: on a cold disk the import of torch takes minutes."""
LEAST_S = 10.0
"""A step is not begun with less time left [s]."""
GRACE_S = 5.0
"""How long a step that was told to end has before it is killed [s]."""
SEARCH_END_S = 30.0
"""The same of a search, which writes the best setting so far [s]."""
AFTER_SEARCH_S = 250.0
"""Kept of the last command's time for what comes after the search [s]."""
NEEDED = ("gpu", "driver", "other processes", "torch", "cuda", "fp8", "versions")
"""Lines of the doctor without which nothing is worth measuring."""
CONFIGS = {
    "cuda": ("configs/llama3_8l_1xh100_fp8.toml", "configs/llama3_7b_16xh100_fp8.toml"),
    "cpu": ("configs/rehearsal_cpu.toml", "configs/rehearsal_cpu.toml"),
}
"""What is searched, and what one GPU runs as rank 0 of 16, by the device."""
LARGEST = {"cuda": "16384", "cpu": "512"}
"""M of the largest linears that are timed [tokens]."""
SEARCH_BUDGET = {"cuda": "15m", "cpu": "40s"}
MINUTES = "MINUTES"
"""A word of a command that stands for the minutes that the step has."""


PROGRAMS = {
    "nvidia-smi.txt": ("nvidia-smi", "-q"),
    "pip-list.txt": (sys.executable, "-m", "pip", "list"),
}
"""What else describes the machine: the file of its output, and the command."""


@dataclass(frozen=True)
class Step:
    """A command, and how long it may take [s]; ``checkout``: it needs KempnerForge."""

    name: str
    command: tuple[str, ...]
    limit_s: float
    checkout: bool = False


@dataclass(frozen=True)
class Place:
    """Where a session runs: its device, the folder of its results, a checkout."""

    device: str
    folder: Path
    checkout: str = ""

    def steps(self, command: str) -> list[Step]:
        """Return the steps of a command that measure something, in their order."""
        return {"first": self._first, "next": list, "last": self._last}[command]()

    def _first(self) -> list[Step]:
        searched, of_16 = CONFIGS[self.device]
        ranks = ("--world-size", "16")
        return [
            self._on_gpu("trial-alone", 130, "trial", searched),
            self._on_gpu("trial-rank-0-of-16", 210, "trial", of_16, *ranks),
            self._on_gpu("traces", 130, "traces"),
        ]

    def _last(self) -> list[Step]:
        searched, _ = CONFIGS[self.device]
        results, device = self.folder / "results", ("--device", self.device)
        shapes, stand_in = results / "fp8_shapes.json", results / "stand_in.jsonl"
        evidence = results / "rule_evidence.json"
        commit = ("--commit", os.environ.get("CHECKOUT_COMMIT", ""))
        return [
            self._module(
                "stand-in",
                200,
                "benchmarks.stand_in",
                self.checkout,
                *(*device, *commit, "--output", str(stand_in)),
                *("--repeats", "1", "--only", "full AC, compiled"),
                checkout=True,
            ),
            self._module(
                "fp8-shapes", 60, "benchmarks.fp8_shapes", "--output", str(shapes)
            ),
            self._module(
                "rules",
                300,
                "benchmarks.rule_evidence",
                self.checkout,
                *(*device, *commit, "--output", str(evidence), "--rule", "gpu-only"),
                checkout=True,
            ),
            self._on_gpu(
                "linears", 300, "linears", searched, "--largest", LARGEST[self.device]
            ),
        ]

    def search(self) -> tuple[str, ...]:
        """Return the command of the search."""
        config, studies = CONFIGS[self.device][0], self.folder / "studies"
        budget = os.environ.get("SEARCH_BUDGET", SEARCH_BUDGET[self.device])
        where = ("--device", self.device, "--studies", str(studies))
        tuned = self.folder / "results" / "tuned.toml"
        answer = ("--output", str(tuned), "--output-format", "json")
        python = (sys.executable, "-m", "fp8tune", "search")
        return (*python, config, "--budget", budget, *where, *answer)

    def _on_gpu(self, name: str, limit_s: float, what: str, *more: str) -> Step:
        results = ("--results", str(self.folder / "results"))
        minutes = ("--minutes", MINUTES) if what != "traces" else ()
        module, device = "benchmarks.on_gpu", ("--device", self.device)
        return self._module(
            name, limit_s, module, what, *more, *device, *results, *minutes
        )

    def _module(
        self, name: str, limit_s: float, *words: str, checkout: bool = False
    ) -> Step:
        return Step(name, (sys.executable, "-m", *words), limit_s, checkout)


class Session:
    """One command of a session, with the time that it has."""

    def __init__(self, command: str, out: Path, place: Place, seconds: float) -> None:
        self.command, self.out, self.place = command, out, place
        self.began = time.monotonic()
        self.seconds = seconds
        self.running: subprocess.Popen[bytes] | None = None
        self.step = ""
        self.anyway = bool(os.environ.get("ANYWAY"))
        self.folder = place.folder
        self.ended = threading.Event()
        self.packing = threading.Lock()
        for name in ("logs", "results"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.environment = {
            **os.environ,
            "PYTHONPATH": python_path(ROOT),
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def left(self) -> float:
        """Time left for steps [s]."""
        return self.seconds - END_S - (time.monotonic() - self.began)

    def say(self, text: str) -> None:
        """Print a line with the time of the command, and add it to the log."""
        spent, every = (
            _clock(s) for s in (time.monotonic() - self.began, self.seconds)
        )
        line = f"[{self.command} {spent} of {every}] {text}"
        print(line, flush=True)
        with (self.folder / "session.log").open("a", encoding="utf-8") as file:
            print(line, file=file)

    def run(self, step: Step) -> bool:
        """Run a step that has not finished yet; tell whether it has now."""
        if step.name in self._finished():
            self.say(f"{step.name}: finished earlier")
            return True
        if step.checkout and not self.place.checkout:
            return self._note(step.name, "skipped", 0.0, "it needs a CHECKOUT")
        limit = min(step.limit_s, self.left)
        if limit < LEAST_S:
            return self._note(step.name, "not reached", 0.0, "no time left")
        self.say(f"{step.name}: at most {limit:.0f} s")
        self.step = step.name
        start = time.monotonic()
        log = self.folder / "logs" / f"{step.name}.log"
        minutes = f"{max(limit - 15, LEAST_S / 2) / 60:.2f}"
        command = tuple(minutes if w == MINUTES else w for w in step.command)
        with log.open("ab") as file:
            code = self._wait(self._start(command, file, file), limit)
        took = time.monotonic() - start
        if code is None:
            return self._note(step.name, "out of time", took, "")
        outcome = f"ended with {code}" if code else "finished"
        return self._note(step.name, outcome, took, _last_line(log) if code else "")

    def _start(
        self, command: tuple[str, ...], output: Any, errors: Any
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, which ends with this process."""
        from fp8tune.runners.orphan import COMMAND

        words = [*COMMAND, str(os.getpid()), "KILL", *command]
        return subprocess.Popen(  # noqa: S603 - the commands are ours
            words,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )

    def _wait(self, process: subprocess.Popen[bytes], limit_s: float) -> int | None:
        """Return the exit code of a process; end it after its limit: ``None``."""
        self.running = process
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process, GRACE_S)

    def _note(self, name: str, outcome: str, took: float, why: str) -> bool:
        """Write down how a step ended, pack, and then say it."""
        self.step = ""
        entry = {
            "step": name,
            "command": self.command,
            "outcome": outcome,
            "seconds": round(took, 1),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "why": why,
        }
        with (self.folder / "steps.jsonl").open("a", encoding="utf-8") as file:
            print(json.dumps(entry), file=file)
        self.pack()
        self.say(f"{name}: {outcome}, {took:.0f} s" + f": {why}" * bool(why))
        return outcome == "finished"

    def _finished(self) -> set[str]:
        return {e["step"] for e in steps_of(self.folder) if e["outcome"] == "finished"}

    def install(self, wheels: str) -> None:
        """Install a folder of wheels; one that does not fit is named, and left out."""
        tried = any(step["step"] == "wheels" for step in steps_of(self.folder))
        if tried and self.command != "first":
            return
        files = sorted(str(path) for path in Path(wheels).glob("*.whl"))
        if not files:
            self._note("wheels", "ended with 1", 0.0, f"no .whl in {wheels}")
            return
        environment = {
            "PIP_BREAK_SYSTEM_PACKAGES": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }
        self.environment |= environment
        pip = (sys.executable, "-m", "pip", "install", "--no-index", "--no-deps")
        if self.run(Step("wheels", (*pip, *files), 120)):
            return
        # also over what the system installed, which has no records of its files
        pip_one = (*pip, "--ignore-installed")
        for file in files:
            self.run(
                Step(f"wheel-{Path(file).name.partition('-')[0]}", (*pip_one, file), 60)
            )

    def may_go_on(self) -> bool:
        """Ask the doctor; tell whether a GPU, or CPU, is there to be measured alone."""
        path = self.folder / "doctor.json"
        words = ("-m", "fp8tune", "doctor", "--output-format", "json")
        command = (sys.executable, *words, "--device", self.place.device)
        log = self.folder / "logs" / "doctor.log"
        limit = min(DOCTOR_S, self.left)
        with path.open("wb") as output, log.open("wb") as errors:
            code = self._wait(self._start(command, output, errors), limit)
        if code is None:
            self.say(f"the doctor did not answer in {limit:.0f} s; try again")
            return False
        try:
            checks = json.loads(path.read_text())["checks"]
        except (ValueError, KeyError):
            self.say(f"fp8tune does not start here: {_last_line(log)}")
            self.say("set WHEELS to a folder of wheels of what it needs")
            return False
        wrong = [c for c in checks if c["state"] in ("missing", "warning")]
        self.say(f"doctor: {len(checks) - len(wrong)} of {len(checks)} checks are fine")
        for check in wrong:
            self.say("{state:8}{name}: {value}".format(**check))
            for note in filter(None, (check["why"], check["fix"])):
                self.say(f"{'':10}{note}")
        stopping = [c["name"] for c in wrong if c["name"] in NEEDED]
        if stopping and not self.anyway:
            said = ", ".join(stopping)
            self.say(f"ends here because of: {said}; ANYWAY=1 goes on all the same")
        return not stopping or self.anyway

    def start_search(self) -> None:
        """Start the search, or go on with it, so that it outlives this command."""
        if self.search_pid() or self.search_code() == "0":
            return
        if self.left < LEAST_S:
            self._note("search", "not reached", 0.0, "no time left")
            return
        folder = self.folder
        (folder / "search.exit").unlink(missing_ok=True)
        # at SIGTERM the shell stays, to write the exit code of the search
        shell = 'trap : TERM; echo $$ > "$1"; out=$2; err=$3; end=$4; shift 4; '
        shell += '"$@" > "$out" 2>> "$err"; echo $? > "$end"'
        files = (
            folder / "search.pid",
            folder / "results" / "search_answer.json",
            folder / "logs" / "search.log",
            folder / "search.exit",
        )
        allowed = ("--allow-versions",) * self.anyway
        words = (*self.place.search(), *allowed)
        subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", shell, "sh", *map(str, files), *words],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.say("search: started; it goes on between the commands")
        while not self.search_pid() and not self.search_code():
            time.sleep(0.05)

    def search_pid(self) -> int:
        """Return the process group of a running search, else 0."""
        with suppress(OSError, ValueError):
            group = int((self.folder / "search.pid").read_text())
            # another process may have the number of one that is gone
            shell = Path(f"/proc/{group}/cmdline").read_bytes()
            if not self.search_code() and str(self.folder).encode() in shell:
                return group
        return 0

    def search_code(self) -> str:
        """Return the exit code of a search that has ended, else ``""``."""
        with suppress(OSError):
            return (self.folder / "search.exit").read_text().strip()
        return ""

    def wait_for_search(self, keep_s: float) -> None:
        """Wait until the search has ended, or ``keep_s`` seconds are left."""
        said = time.monotonic()
        while self.search_pid() and self.left > keep_s:
            time.sleep(0.5)
            if time.monotonic() - said > 30:
                said = time.monotonic()
                line = _last_line(self.folder / "logs" / "search.log")
                self.say(f"search: {line or 'runs'}")

    def finish_search(self) -> None:
        """Wait for the search, stop it where it takes too long, and note its end."""
        self.wait_for_search(min(AFTER_SEARCH_S, self.left / 2))
        if group := self.search_pid():
            self.say("search: is stopped, and writes the best setting so far")
            _signal(group, signal.SIGTERM)
            end = time.monotonic() + SEARCH_END_S
            while self.search_pid() and time.monotonic() < end:
                time.sleep(0.2)
            _signal(group, signal.SIGKILL)
        self.note_search()

    def note_search(self) -> None:
        """Note how the search has ended, if that is not noted yet."""
        if "search" in self._finished():
            return
        code, log = self.search_code(), self.folder / "logs" / "search.log"
        began, ended = (self.folder / f"search.{end}" for end in ("pid", "exit"))
        if not began.exists():
            self._note("search", "not reached", 0.0, "it was not started")
            return
        until = ended.stat().st_mtime if code else time.time()
        outcome = "finished" if code == "0" else f"ended with {code or 'nothing'}"
        why = "" if code == "0" else _last_line(log)
        self._note("search", outcome, until - began.stat().st_mtime, why)

    def pack(self) -> None:
        """Pack what there is: results and logs, and the traces apart."""
        with self.packing, suppress(OSError):
            files = files_below(self.folder)
            traces = [path for path in files if path.name.endswith(".json.gz")]
            others = [path for path in files if path not in set(traces)]
            for name, some in (("session.tgz", others), ("traces.tgz", traces)):
                if some:
                    for path in pack(self.folder, some, self.out / name):
                        print(f"too large for {name}: {path.name}", flush=True)
            log = self.folder / "session.log"
            (self.out / "session.log").write_bytes(log.read_bytes())

    def keep_packing(self) -> None:
        """Pack every ``PACK_S`` seconds until the command ends."""
        while not self.ended.wait(PACK_S):
            self.pack()

    def close(self) -> None:
        """End what runs for this command alone, and pack for the last time."""
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        self.ended.set()
        if self.running:
            _end(self.running, GRACE_S)
        if self.step:
            self._note(self.step, "interrupted", 0.0, "the command was ended")
        self.pack()


def steps_of(folder: Path) -> list[dict[str, Any]]:
    """Return how the steps of a session ended, in their order."""
    path = folder / "steps.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    steps = []
    for line in lines:  # the last one may be cut off
        with suppress(ValueError, RecursionError):
            step = json.loads(line.decode(errors="replace"))
            if isinstance(step, dict) and {"step", "outcome"} <= set(step):
                steps.append(step)
    return steps


STOPPING = (signal.SIGTERM, signal.SIGINT)
"""Signals that end a command; what has finished is packed."""


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End a process and all that it started."""
    if process.poll() is None:
        _signal(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _last_line(log: Path) -> str:
    """Return the last line of a log that is not empty, at most 300 characters."""
    with suppress(OSError):
        lines = log.read_bytes()[-4096:].decode(errors="replace").splitlines()
        return next(
            (line.strip()[:300] for line in reversed(lines) if line.strip()), ""
        )
    return ""


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _place(checkout: str) -> Place:
    device = os.environ.get("DEVICE", "cuda")
    if device not in CONFIGS:
        raise SystemExit(f"DEVICE is cuda or cpu, not {device}")
    if checkout and not (Path(checkout) / "scripts" / "train.py").is_file():
        raise SystemExit(f"{checkout} has no scripts/train.py: is it KempnerForge?")
    # steps that finished on another device or at another commit are not this session's
    name = f"fp8tune-{os.getuid()}-{device}-{commit()[:12]}"
    folder = Path(os.environ.get("SCRATCH", Path(tempfile.gettempdir()) / name))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise SystemExit(f"{folder} belongs to another user; set SCRATCH")
    return Place(device, folder, checkout)


def main(command: str, out: str, checkout: str = "") -> int:
    """Run one of the three commands; exit code 1 if nothing could be measured."""
    if command not in ("first", "next", "last"):
        raise SystemExit(f"first, next or last, not {command}")
    try:
        seconds = float(os.environ.get("SECONDS_LEFT", "580"))
    except ValueError:
        raise SystemExit("SECONDS_LEFT is a number of seconds") from None
    session = Session(command, Path(out), _place(checkout), seconds)
    for number in STOPPING:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    threading.Thread(target=session.keep_packing, daemon=True).start()
    try:
        return _run(session)
    finally:
        session.close()


def _run(session: Session) -> int:
    place, command = session.place, session.command
    session.say(f"results are collected in {place.folder}")
    if command == "first" and session.search_pid():
        session.say("the search of this session runs; now: next")
        return 0
    if wheels := os.environ.get("WHEELS", ""):
        session.install(wheels)
    if not session.search_pid() and not session.may_go_on():
        return 1
    _describe(session)
    if command == "last":
        session.finish_search()
    for step in place.steps(command):
        session.run(step)
    if command != "last":
        session.start_search()
    if command == "next":
        session.wait_for_search(0.0)
        if session.search_code():
            session.note_search()
    now = {"first": "now: next", "next": "now: last", "last": "now: on_gpu take"}
    session.say(f"{now[command]} (see benchmarks/README.md)")
    measured = {step.name for c in ("first", "last") for step in place.steps(c)}
    ran = {s["step"] for s in steps_of(place.folder) if s["seconds"]}
    return int(not (measured & ran or session.search_pid()))


def _describe(session: Session) -> None:
    """Write down the environment: one step, and what other programs say of it."""
    path = session.folder / "environment.json"
    if path.exists():
        return
    module = (sys.executable, "-m", "benchmarks.on_gpu.environment", str(path))
    session.run(Step("environment", module, 60))
    for name, command in PROGRAMS.items():
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(  # noqa: S603
                command,
                env=session.environment,
                stdout=subprocess.PIPE,
                timeout=20,
                check=False,
            )
            (session.folder / name).write_bytes(done.stdout)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
