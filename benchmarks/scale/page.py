"""Record what ``scale.storage`` and ``scale.planning`` printed, as data and a page.

python -m benchmarks.scale.storage ... >> rows.jsonl
python -m benchmarks.scale.planning > planning.json
python -m benchmarks.scale.page rows.jsonl planning.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.search.recording import record

HEAD = (
    *("storage", "workers", "trial [s]"),
    *("settings", "runs", "lost", "counted twice", "repeated"),
    *("worker: claim [ms]", "tell [ms]", "CPU [ms]", "idle [s]"),
    *("coordinator: store [ms]", "CPU [ms], first to last fifth", "server CPU [ms]"),
    *("trials/s", "load"),
)


def page(rows: Sequence[dict[str, Any]], planning: dict[str, Any]) -> str:
    """Return the page of the storage and of planning."""
    coordinator = max(_first_fifth(row) for row in rows)
    proposals = [
        (sampler, trials, _with_p95(ms), *_limit(ms, coordinator))
        for sampler, known in planning["proposal_ms"].items()
        for trials, ms in known.items()
    ]
    others = [
        (f"up to {trials}", f"{ms:.0f}")
        for trials, ms in planning["coordinator_ms"].items()
    ]
    return "\n\n".join(
        (
            "# Costs of a search with many workers",
            NOTE,
            machine.table([_line(row) for row in rows], HEAD),
            PLANNING,
            machine.table(proposals, PROPOSALS),
            "; ".join(f"{key} {value}" for key, value in planning["about"].items()),
            f"`with the coordinator` adds {coordinator:.0f} ms, its CPU time for each "
            "of the first 1,000 trials above.",
            REST,
            machine.table(others, ("trials so far", "the rest of planning [ms]")),
            LIMITS,
        )
    )


def _first_fifth(row: dict[str, Any]) -> float:
    """Return the coordinator's CPU time for one of the first thousand trials [ms]."""
    is_long = row["settings"] >= 5000
    return float(row["coordinator"]["cpu_ms_of_parts"][0]) if is_long else 0.0


def _with_p95(values: Sequence[float], digits: int = 0) -> str:
    """Return a median, and the 95th percentile in brackets."""
    return f"{values[0]:.{digits}f} ({values[1]:.{digits}f})"


def _limit(proposal_ms: Sequence[float], coordinator_ms: float) -> tuple[str, str]:
    """Return what a trial costs the coordinator [ms], and the trials in a second."""
    whole = [ms + coordinator_ms for ms in proposal_ms]
    return _with_p95(whole), f"{1e3 / whole[0]:.1f}"


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    worker, coordinator = row["worker"], row["coordinator"]
    parts = coordinator["cpu_ms_of_parts"]
    return (
        *(row["storage"], f"{row['workers']}", f"{row['typical_s']:.0f}"),
        *(f"{row['settings']}", f"{row['runs']}"),
        *(f"{row['lost']}", f"{row['counted_twice']}", f"{row['repeated']}"),
        *(_with_p95(worker["claim_ms"]), _with_p95(worker["tell_ms"])),
        f"{worker['mean_process_cpu_ms'][-1]:.0f}",
        _with_p95(worker["idle_s"], 1),
        _with_p95(coordinator["store_ms"]),
        f"{parts[0]:.0f} to {parts[-1]:.0f}",
        f"{row['server_cpu_ms']:.0f}",
        f"{row['runs'] / row['seconds']:.1f}",
        f"{row['load'][1]:.0f}",
    )


NOTE = """\
Real coordinators and workers (`python -m benchmarks.scale.storage`). Trials sleep for
the seconds in the third column, 5 % of them 3 to 10 times as long, and 5 % fail. Every
40 s a worker chosen at random is killed, and a new one starts. Figures are of one
trial: medians with the 95th percentile in brackets, and means of CPU time (of the
worker's whole process, with its heartbeats and polls). `idle` is how long a worker
waits from the end of a trial to the next one. `repeated` counts the runs that a killed
worker had begun: one for each worker that was killed in a trial.

All processes and the database server shared four cores with other programs, so that
times in ms of wall time are upper limits; `load` is the machine's."""
PROPOSALS = (
    *("sampler", "after trials", "proposal [ms]", "with the coordinator [ms]"),
    "trials/s at most",
)
PLANNING = """\
CPU time of a proposal, without a storage: the median of ten, and the 95th percentile in
brackets. The space has 5,000 settings, where the knobs of one config usually have tens
or hundreds. This was measured on another machine than the table above, named below."""
REST = "CPU time of the rest of planning, also without a storage:"
LIMITS = """\
Both grow with the number of trials. The speed model of `auto` is a Gaussian process of
all settings that ran, so that it grows fastest. Where planning takes longer than the
workers' trials last, divided by their number, workers wait for the coordinator: then
use `--sampler tpe` or `random`, or search fewer knobs.

The limit of many workers is the coordinator, with either storage. It proposes a trial
and stores it. Without the proposal it took 127 ms of CPU time in the last fifth of
5,000 trials on PostgreSQL and 115 ms on a journal, nine tenths of a core: 8 trials a
second. With the proposal it can plan as many as `trials/s at most`. 64 workers whose
trials take a minute need one a second. A search that comes near the limit is better
split into two studies of fewer knobs.

A journal on a local disk costs a worker 5 ms for a trial (claim and tell) as long as
the machine has CPU time to spare. Every process reads it from its first line to its
last, and only one writes at a time, so that it suffers from a busy machine: 0.7 s for a
trial at a load of 48. Between machines use a database."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write ``results/scale_storage.md`` and ``.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("planning", type=Path)
    options = parser.parse_args(arguments)
    lines = options.rows.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    planning = json.loads(options.planning.read_text(encoding="utf-8"))
    figures = {"searches": rows, "planning": planning}
    record("scale_storage", figures, page(rows, planning))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
