"""The same trial again and again, in fresh processes: how far runs of a setting differ.

Prints a record a line, for ``python -m benchmarks.search.aa --records FILE``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.driver import current
from fp8tune.runners.watch import Guard
from fp8tune.search.plan import read_config
from fp8tune.trials.runner import TrialLimits

DEADLINE_S = 900.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials; exit code 1 where one does not measure."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.repeat")
    parser.add_argument("config", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args(arguments)
    data = options.config.read_bytes()
    config = read_config(str(options.config), data, Target(), world_size=1)
    setup, guard = Setup(options.device), None
    if options.device == "cpu":
        setup = setup._replace(min_steps=3, max_steps=6, warm_steps=1)
    else:
        guard = Guard(current())
    target = config.job.target
    runner = Builtin(config.trainer, config.loaded, target, setup, guard=guard)
    failed = 0
    for number in range(options.runs):
        record = runner.run({}, TrialLimits(DEADLINE_S))
        failed += not record.ok
        speed = f"{record.tokens_per_second:,.1f} tokens/s"
        print(
            f"{number + 1}: {speed if record.ok else record.outcome}", file=sys.stderr
        )
        print(record.line(), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
