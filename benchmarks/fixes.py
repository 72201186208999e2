"""Whether the trainer accepts what fixes make of configs with common mistakes.

``TRAINER_PYTHON -m benchmarks.fixes CHECKOUT`` applies the safe fixes, then all fixes,
to generated broken configs (``broken_configs.py``). It counts the findings that are
fixed and the configs that lose all their rejections; the trainer itself judges each
config before and after. Exit code 1 if the trainer refuses a config whose rejections
are all fixed, refuses one that it accepted before, or disagrees with fp8tune. That
nothing else in a file changes is tested (``benchmarks/test_broken_configs.py``).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from benchmarks.broken_configs import Broken, broken_configs
from benchmarks.machine import describe_run, table
from benchmarks.options import for_checkout
from benchmarks.search.recording import record
from fp8tune.lint.rewrite import apply_fixes
from tests.support.verdicts import lint, refusals
from tools.kempnerforge.judge import trainer_verdict

Verdict = Callable[[str, int], str]


def main(arguments: list[str] | None = None) -> int:
    """Generate, fix, judge, count."""
    parser = for_checkout("benchmarks.fixes", __doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args(arguments)
    configs = list(broken_configs(options.count, options.seed))
    judge = trainer_verdict(options.checkout)
    safe, every = (counts(configs, judge, unsafe=unsafe) for unsafe in (False, True))
    rows = [(name, str(count), str(every[name])) for name, count in safe.items()]
    page = f"""\
# Fixes of broken configs

{options.count} generated configs of seed {options.seed}, judged by the trainer.

{table(rows, ("", "--fix", "--unsafe-fixes"))}"""
    print(page)
    if options.record:
        about = describe_run(options.checkout, options.commit, "cpu")
        record("fixes", {"--fix": safe, "--unsafe-fixes": every}, page, about)
    broken = [*promises(safe), *promises(every)]
    for line in broken:
        print(f"broken promise: {line}", file=sys.stderr)
    return int(bool(broken))


def counts(
    configs: Iterable[Broken], judge: Verdict, *, unsafe: bool
) -> dict[str, int]:
    """Return what was found and fixed, and what the verdicts are afterwards."""
    look = partial(lint, "x", only="kempnerforge")
    found = Counter[str]()
    for config in configs:
        made = apply_fixes(config.data, look, unsafe=unsafe)
        before, after = look(config.data), made.report
        freed = bool(refusals(before)) and not refusals(after)
        accepted, accepts = (
            not judge(data.decode(), config.world_size)
            for data in (config.data, made.data)
        )
        found.update(
            {
                "configs": 1,
                "findings before": len(before.diagnostics),
                "findings fixed": len(made.fixed),
                "findings after": len(after.diagnostics),
                "fixes left that do not hold": sum(
                    d.fix is not None and (unsafe or d.fix.safety == "safe")
                    for d in after.diagnostics
                ),
                "rejected before": bool(refusals(before)),
                "all rejections fixed": freed,
                "of these the trainer accepts": freed and accepts,
                "verdicts that agree afterwards": accepts is not bool(refusals(after)),
                "accepted by the trainer before": accepted,
                "accepted before and after": accepted and accepts,
            }
        )
    return dict(found)


def promises(counted: dict[str, int]) -> Iterator[str]:
    """Yield the promises that a run breaks."""
    for one, other in (
        ("of these the trainer accepts", "all rejections fixed"),
        ("verdicts that agree afterwards", "configs"),
        ("accepted before and after", "accepted by the trainer before"),
    ):
        if counted.get(one) != counted.get(other):
            yield f"{one}: {counted.get(one, 0)} of {counted.get(other, 0)}"


if __name__ == "__main__":
    sys.exit(main())
