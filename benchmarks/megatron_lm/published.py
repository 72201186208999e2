"""Whether the published gains of FP8 with Megatron are what their sources say.

``python -m benchmarks.megatron_lm.published BRIDGE`` reads
``fp8tune/trainers/megatron_lm/gains.toml`` and prints what estimates give as reasons.
Figures that stand in the documents of Megatron-Bridge are looked up in BRIDGE, a
checkout; it exits with 1 if they are not there. Those of issues are not looked up. It
also counts the runs on H100s in these documents, of which no two differ in precision
alone.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from fp8tune.trainers.megatron_lm.gains import fp8_reasons
from tools.megatron_lm.schema import FOLDER

TABLES = "docs/performance-summary-archive.md"
"""Pre-training speeds by container release, model and system."""

STEP = "skills/nemo-mbridge-perf-moe-hardware-configs/SKILL.md"
"""The settings and the step time of Qwen3-30B-A3B in bf16."""

FP8_RUN = "| DGX-H100 | 16 | FP8 | 1024 | 1 | 4096 | 1 | 1 | 1 | n/a | 16 | 8826 |"
TOKENS, GPUS = 1024 * 4096, 16
"""Tokens of a step of that run, and its GPUs."""


def main() -> int:
    """Print the pairs and what is not as their sources say."""
    parser = argparse.ArgumentParser(prog="benchmarks.megatron_lm.published")
    parser.add_argument("bridge", type=Path, help="a checkout of Megatron-Bridge")
    bridge = parser.parse_args().bridge
    with (FOLDER / "gains.toml").open("rb") as file:
        pairs = tomllib.load(file)["pair"]
    for experts in (0, 8):
        print("\n".join(fp8_reasons("", experts)))
    wrong = list(differences(pairs, bridge))
    print("\n".join(wrong), end="\n" * bool(wrong))
    for precision, count in sorted(runs_on_h100(bridge).items()):
        print(f"runs on H100s in {TABLES}: {count} in {precision}")
    return int(bool(wrong))


def differences(pairs: list[dict[str, Any]], bridge: Path) -> list[str]:
    """Return what differs from the documents of a checkout."""
    (tokens,) = (pair["tokens"] for pair in pairs if "tokens" in pair)
    step = re.search(r"Measured: ([\d.]+)s/step", (bridge / STEP).read_text("utf-8"))
    found = []
    if not step or round(TOKENS / float(step[1]) / GPUS) != tokens["bf16"]:
        found.append(f"{STEP}: not {tokens['bf16']} tokens/s per GPU")
    if FP8_RUN not in (bridge / TABLES).read_text("utf-8"):
        found.append(f"{TABLES}: not {tokens['fp8']} tokens/s per GPU")
    return found


def runs_on_h100(bridge: Path) -> dict[str, int]:
    """Return how many runs on H100s the tables have, by precision."""
    found: dict[str, int] = {}
    for line in (bridge / TABLES).read_text("utf-8").splitlines():
        row = re.match(r"\| DGX-H100 \| \d+ \| ([\w-]+) \|", line)
        if row:
            found[row[1]] = found.get(row[1], 0) + 1
    return found


if __name__ == "__main__":
    sys.exit(main())
