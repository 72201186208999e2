"""What a search with many workers costs: its storage, its coordinator, killed workers.

    python -m benchmarks.scale.storage postgresql://user:password@host/database
    python -m benchmarks.scale.storage study.journal --workers 8 --trials 200

The coordinator and the workers are the real ones. Trials sleep, for seconds where real
ones take minutes, so that the storage is busier than in a real search. Settings are
tried in a fixed order: samplers are measured by ``benchmarks.scale.planning``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import optuna

from benchmarks.scale.many_workers import ManyWorkers, space_of
from fp8tune.search.coordinator import Search
from fp8tune.search.database import without_password
from fp8tune.search.members import Members
from fp8tune.search.pool import Ended
from fp8tune.search.study import STALE, Study
from fp8tune.search.workers import NoStarter, Workers
from fp8tune.trials.order import Order
from fp8tune.trials.space import Point, Space
from tests.support.in_order import InOrder

PARTS = 5
"""Parts of a search of which the costs are shown, to see how they grow."""


class TimedWorkers(Workers):
    """A pool that measures what the coordinator does between waiting."""

    def begin(self) -> None:
        """Start to measure."""
        self.times: list[tuple[float, float, float]] = []
        """For each trial: storing it [s], the process's CPU time until then [s], and
        the wall time [s]."""
        self.most = 0

    def start(self, order: Order) -> int:
        """Store an order."""
        before = time.perf_counter()
        number = super().start(order)
        now = time.perf_counter()
        self.times.append((now - before, time.process_time(), now))
        return number

    def wait(self) -> list[Ended]:
        """Wait for trials."""
        self.most = max(self.most, len(self.workers))
        return super().wait()


class Server:
    """CPU time of a PostgreSQL server of this machine, of all its processes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def seconds(self) -> float:
        """Return user and system time so far [s]; 0 without a server."""
        if not self._pid:
            return 0.0
        fields = [_stat(self._pid), *map(_stat, self._children())]
        own = sum(sum(map(int, each[11:13])) for each in fields)
        ended = sum(map(int, fields[0][13:15]))
        return (own + ended) / os.sysconf("SC_CLK_TCK")

    def _children(self) -> list[int]:
        path = Path(f"/proc/{self._pid}/task/{self._pid}/children")
        return [int(pid) for pid in path.read_text().split()]


def _stat(pid: int) -> list[str]:
    """Return a process's fields of proc(5) from ``state`` on; zeros if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ["0"] * 20
    return text.rpartition(")")[2].split()


def measure(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Run one search and return what it cost."""
    name = os.path.join(folder, f"scale-{os.getpid()}-{int(time.time())}")
    os.mkdir(name)
    url = options.url if "://" in options.url else ""
    space = space_of(options.trials)
    points = list(space.points((0,) * len(space.knobs)))[: options.trials]
    study = Study(space, name, url)
    members = Members(study.storage, study.optuna.study_name, study.place)
    members.beat_s = options.beat
    pool = TimedWorkers(study, members, NoStarter(), {"beat_s": options.beat})
    log = os.path.join(name, "log")
    workers = ManyWorkers(
        url=url,
        folder=name,
        space=space,
        workers=options.workers,
        typical_s=options.typical,
        kill_s=options.kill,
        beat_s=options.beat,
        log=log,
    )
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    server = Server(options.server)
    keeper = context.Process(target=workers.run, args=(stop,))
    keeper.start()
    try:
        with members.joined({"role": "coordinator"}):
            pool.lead()
            pool.begin()
            strategy = InOrder(points[1:])
            begun, cpu, served = time.time(), time.process_time(), server.seconds()
            search = Search(
                space, points[0], pool, strategy, study, options.budget, strategy.take
            )
            outcome = search.run()
            seconds = time.time() - begun
            cpu, served = time.process_time() - cpu, server.seconds() - served
    finally:
        stop.set()
        keeper.join(120)
        keeper.kill()
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    told = [line for line in lines if "told" in line]
    return {
        "storage": without_password(options.url).partition(":")[0]
        if url
        else "journal",
        "workers": options.workers,
        "most_workers": pool.most,
        "typical_s": options.typical,
        "seconds": round(seconds),
        "load": [round(load, 1) for load in os.getloadavg()],
        **_counted(study, space, points, lines),
        "verdict": outcome.verdict,
        "worker": _of_worker(told),
        "coordinator": _of_coordinator(pool, cpu),
        "server_cpu_ms": round(1e3 * served / max(1, len(told)), 1),
    }


def _counted(
    study: Study, space: Space, points: Sequence[Point], lines: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return what came of the settings: none may be lost, and none counted twice."""
    every = study.optuna.get_trials(deepcopy=False)
    searched = Counter(
        space.point(trial.record.knobs)
        for trial in study.trials
        if trial.stage in ("baseline", "search")
    )
    settings = {trial.number: trial.params for trial in every}
    begun = [line["begun"] for line in lines if "begun" in line]
    begun = [n for n in begun if every[n].user_attrs["stage"] != "confirm"]
    different = {str(settings[number]) for number in begun}
    outcomes = Counter(trial.record.outcome for trial in study.trials)
    return {
        "settings": len(points),
        "lost": sum(point not in searched for point in points),
        "counted_twice": sum(count > 1 for count in searched.values()),
        "given_back": sum(STALE in trial.system_attrs for trial in every),
        "runs": len(begun),
        "repeated": len(begun) - len(different),
        "outcomes": dict(outcomes),
        "unfinished": sum(not trial.state.is_finished() for trial in every),
    }


def _of_worker(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what a trial costs its worker [ms], and how long that was idle [s]."""
    names = ("claim_s", "claim_cpu_s", "tell_s", "tell_cpu_s", "polls_cpu_s")
    figures: dict[str, Any] = {
        f"{name.removesuffix('_s')}_ms": median_and_p95_ms(line[name] for line in told)
        for name in names
    }
    figures["mean_process_cpu_ms"] = [
        round(1e3 * statistics.fmean(line["process_cpu_s"] for line in part), 1)
        for part in _parts(told)
    ]
    idle = sorted(line["idle_s"] for line in told[len(told) // 10 :])
    figures["idle_s"] = [
        round(idle[int(share * (len(idle) - 1))], 2) for share in (0.5, 0.95, 1.0)
    ]
    return figures


def _of_coordinator(pool: TimedWorkers, cpu: float) -> dict[str, Any]:
    """Return what a trial costs the coordinator [ms]."""
    return {
        "store_ms": median_and_p95_ms(stored for stored, *_ in pool.times),
        "cpu_ms": round(1e3 * cpu / len(pool.times), 1),
        "cpu_ms_of_parts": [
            round(1e3 * (part[-1][1] - part[0][1]) / len(part), 1)
            for part in _parts(pool.times)
        ],
        "cpu_share_of_parts": [
            round((part[-1][1] - part[0][1]) / (part[-1][2] - part[0][2]), 2)
            for part in _parts(pool.times)
        ],
    }


def _parts(rows: Sequence[Any]) -> list[Sequence[Any]]:
    size = max(2, len(rows) // PARTS)
    return [
        rows[n * size : (n + 1) * size] for n in range(PARTS) if rows[n * size + 1 :]
    ]


def median_and_p95_ms(seconds: Iterable[float]) -> list[float]:
    """Return the median and the 95th percentile [ms]."""
    known = sorted(seconds)
    places = (len(known) // 2, int(0.95 * (len(known) - 1)))
    return [round(1e3 * known[place], 1) for place in places]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a search and print what it cost, as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="storage URL, or the word `journal`")
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--typical", type=float, default=10.0, help="of a trial [s]")
    parser.add_argument("--kill", type=float, default=20.0, help="a worker every [s]")
    parser.add_argument("--beat", type=float, default=2.0, help="heartbeat [s]")
    parser.add_argument("--budget", type=float, default=7200.0, help="[s]")
    parser.add_argument("--server", type=int, default=0, help="PID of PostgreSQL")
    options = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(options, folder)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
