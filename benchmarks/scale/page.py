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
    proposals = [
        (sampler, trials, f"{ms:.0f}")
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
            machine.table(proposals, ("sampler", "after trials", "proposal [ms]")),
            machine.table(others, ("trials so far", "the rest of planning [ms]")),
            LIMITS,
        )
    )


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    worker, coordinator = row["worker"], row["coordinator"]
    parts = coordinator["cpu_ms_of_parts"]
    return (
        *(row["storage"], f"{row['workers']}", f"{row['typical_s']:.0f}"),
        *(f"{row['settings']}", f"{row['runs']}"),
        *(f"{row['lost']}", f"{row['counted_twice']}", f"{row['repeated']}"),
        *(f"{worker['claim_ms'][0]:.0f}", f"{worker['tell_ms'][0]:.0f}"),
        f"{worker['mean_process_cpu_ms'][-1]:.0f}",
        f"{worker['idle_s'][0]:.1f}",
        f"{coordinator['store_ms'][0]:.0f}",
        f"{parts[0]:.0f} to {parts[-1]:.0f}",
        f"{row['server_cpu_ms']:.0f}",
        f"{row['runs'] / row['seconds']:.1f}",
        f"{row['load'][1]:.0f}",
    )


NOTE = """\
Real coordinators and workers (`python -m benchmarks.scale.storage`). Trials sleep for
the seconds in the third column, 5 % of them 3 to 10 times as long, and 5 % fail. Every
40 s a worker chosen at random is killed, and a new one starts. Figures are of one
trial: medians, and means of CPU time (of the worker's whole process, with its
heartbeats and polls). `idle` is
how long a worker waits from the end of a trial to the next one. `repeated` counts the
runs that a killed worker had begun: one for each worker that was killed in a trial.

All processes and the database server shared four cores with other programs, so that
times in ms of wall time are upper limits; `load` is the machine's."""
PLANNING = "CPU time of planning one trial, without a storage:"
LIMITS = """\
Both grow with the number of trials. The speed model of `auto` is a Gaussian process of
all settings that ran, so that it grows fastest. Where planning takes longer than the
workers' trials last, divided by their number, workers wait for the coordinator: then
use `--sampler tpe` or `random`, or search fewer knobs.

The limit of 64 workers is the coordinator, with either storage: in the last fifth of
5,000 trials it took 127 ms of CPU time for each on PostgreSQL and 115 ms on a journal,
nine tenths of a core, which is 8 trials a second. Real trials take a minute or more,
so that 64 workers need one a second. A search that comes near this limit is better
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
