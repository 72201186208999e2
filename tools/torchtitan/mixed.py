"""Whether files with keys of several torchtitan releases are migrated to one of them.

``TRAINER_PYTHON -m tools.torchtitan.mixed WHEELS --count 60 --seed 1`` draws files
in which keys of 0.1.0 to 0.2.2 stand side by side, moves each to one release by the
fixes of ``fp8tune lint --fix --unsafe-fixes``, and lets that release judge the file
afterwards (``judge.py``). ``--output FILE`` keeps texts and verdicts as JSON lines
(gzip); a test compares with them. Exit code 1 if a release refuses a file that lint
finds no error in, or accepts one that lint finds an error in.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.rewrite import Rewritten, apply_fixes
from fp8tune.lint.ruleset import Rules
from tools.schema_file import toml
from tools.torchtitan.verdicts import ENVIRONMENT, difference, judged_by
from tools.torchtitan.wheels import VERSIONS

FLOAT8 = (
    ("enable_fsdp_float8_all_gather", True),
    ("precompute_float8_dynamic_scale_for_fsdp", True),
    ("filter_fqns", ["output"]),
    ("emulate", False),
)
LINES: tuple[tuple[str, str, Any], ...] = (
    *(("float8", key, value) for key, value in FLOAT8),
    *(("quantize.linear.float8", key, value) for key, value in FLOAT8),
    ("float8", "force_recompute_fp8_weight_in_bwd", True),
    ("quantize.linear.mx", "filter_fqns", ["output"]),
    ("training", "compile", True),
    ("training", "compile", False),
    ("compile", "enable", True),
    ("compile", "components", ["model", "loss"]),
    ("compile", "components", ["loss"]),
    ("training", "seed", 42),
    ("training", "seed", 42),
    ("debug", "seed", 42),
    ("debug", "seed", 7),
    ("training", "deterministic", True),
    ("debug", "deterministic", True),
    ("debug", "deterministic_warn_only", False),
    ("training", "debug_moe_force_load_balance", True),
    ("debug", "moe_force_load_balance", True),
    ("training", "dtype", "float32"),
    ("job", "print_args", True),
    ("job", "print_config", True),
    ("checkpoint", "enable_checkpoint", True),
    ("checkpoint", "enable", True),
    ("checkpoint", "last_save_model_weights_only", True),
    ("checkpoint", "last_save_model_only", True),
    ("checkpoint", "last_save_in_hf", False),
    ("lr_scheduler", "lr_min", 0.1),
    ("lr_scheduler", "min_lr_factor", 0.1),
    ("lr_scheduler", "total_steps", 1000),
    ("memory_estimation", "enabled", False),
    ("memory_estimation", "enable", False),
    ("activation_checkpoint", "early_stop", False),
    ("activation_checkpoint", "early_stop", True),
    ("activation_checkpoint", "preserve_rng_state", True),
    ("activation_checkpoint", "memory_budget", 0.5),
    ("parallelism", "enable_compiled_autograd", False),
    ("parallelism", "expert_parallel_degree", 1),
    ("parallelism", "context_parallel_load_balancer", "headtail"),
    ("fault_tolerance", "sync_steps", 5),
    ("validation", "enable", False),
    ("validation", "freq", 5),
)
"""Keys of which no release has all, as people write them."""

MIGRATE = ("unknown-key", "unknown-key-ignored", "value-not-allowed")
"""The rules whose fixes move a file to another release."""

COMMENTS = ("as before", "from the 8B run", "try false", "note = 1")


def main(arguments: list[str] | None = None) -> int:
    """Draw, fix, ask the releases, and print what disagrees."""
    parser = argparse.ArgumentParser(prog="torchtitan.mixed", description=__doc__)
    parser.add_argument("wheels", type=Path, help="a folder with the wheels")
    parser.add_argument("--count", type=int, default=60, help="files per release")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="where to keep texts and verdicts")
    options = parser.parse_args(arguments)
    rules = Rules(read_builtin(), {})
    judged: list[dict[str, Any]] = []
    wrong = 0
    for version in VERSIONS:
        drawn = files(version, options.count, options.seed)
        after = (migrated(migrating(), case).data.decode() for case in drawn)
        fixed = [c | {"toml": t} for c, t in zip(drawn, after, strict=True)]
        texts = {case["id"]: case["toml"] for case in drawn}
        mine = list(judged_by(options.wheels, version, fixed))
        clear = [case for case in mine if not case["error"].startswith(ENVIRONMENT)]
        different = list(filter(None, (difference(rules, case) for case in clear)))
        accepted = sum(not case["error"] for case in clear)
        print("\n".join(different), end="\n" if different else "")
        print(
            f"torchtitan {version}: {accepted} of {len(clear)} accepted after fixes,"
            f" {len(clear) - len(different)} as lint says"
        )
        wrong += len(different)
        judged += ({"before": texts[case["id"]], **case} for case in mine)
    if options.output:
        lines = "".join(f"{json.dumps(case)}\n" for case in judged)
        options.output.write_bytes(gzip.compress(lines.encode(), mtime=0))
    return int(wrong > 0)


def files(version: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Return files with keys of several releases, to be migrated to ``version``."""
    draw = random.Random(f"mixed {version} {seed}")  # noqa: S311
    return [
        {
            "version": version,
            "id": f"{version}-{seed}-{number}",
            "world_size": 8,
            "toml": "\n".join(_text(draw)) + "\n",
        }
        for number in range(count)
    ]


def _text(draw: random.Random) -> Iterator[str]:
    converter = draw.choice(("float8", "quantize.linear.float8"))
    model = {"name": "llama3", "flavor": "debugmodel", "converters": [converter]}
    tables: dict[str, dict[str, Any]] = {
        "model": model,
        "training": {"local_batch_size": 2, "seq_len": 2048},
    }
    for table, key, value in draw.sample(LINES, draw.randint(2, 12)):
        tables.setdefault(table, {}).setdefault(key, value)
    names = list(tables)
    draw.shuffle(names)
    for name in names:
        yield f"[{name}]"
        pairs = list(tables[name].items())
        draw.shuffle(pairs)
        for key, value in pairs:
            if draw.random() < 0.3:
                yield f"# {draw.choice(COMMENTS)}"
            behind = f"  # {draw.choice(COMMENTS)}" if draw.random() < 0.3 else ""
            yield f"{key} = {toml(value)}{behind}"
        if draw.random() < 0.7:
            yield ""


def migrated(rules: Rules, case: dict[str, Any]) -> Rewritten:
    """Return a file after the fixes of some rules for its release."""
    name = f"torchtitan=={case['version']}"
    target = Target(world_size=case["world_size"], world_size_origin="--world-size")
    return apply_fixes(
        case["toml"].encode(),
        lambda data: check("x", data, rules, target, only=name),
        unsafe=True,
    )


def migrating() -> Rules:
    """Return the rules on keys and converters of other releases."""
    return Rules([rule for rule in read_builtin() if rule.name in MIGRATE], {})


def kept(path: Path) -> list[dict[str, Any]]:
    """Return texts and verdicts of an earlier run."""
    return list(map(json.loads, gzip.decompress(path.read_bytes()).splitlines()))


if __name__ == "__main__":
    sys.exit(main())
