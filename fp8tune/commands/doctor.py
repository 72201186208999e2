"""``fp8tune doctor``: what this machine can do, and how to fix what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fp8tune.cli import Choice, text_or_json

if TYPE_CHECKING:
    from fp8tune.doctor.judge import Check


@click.command("doctor", short_help="Check whether a search can run here.")
@click.option(
    "--device",
    type=Choice(["cuda", "cpu"]),
    default="cuda",
    show_default=True,
    help="Where trials would run; cpu checks for a rehearsal.",
)
@text_or_json
def command(device: str, output_format: str) -> int:
    """Check whether `fp8tune search` can run here, and say what to install if not.

    Exit code 0: a search on this device can run. 1: something is missing.

    \b
    Example:
      fp8tune doctor --device cpu
    """
    from fp8tune.doctor.judge import can_search, judge, without_gpu
    from fp8tune.doctor.machine import look

    checks = judge(look(device), device)
    able = can_search(checks)
    if output_format == "json":
        found = {"version": 1, "device": device, "can_search": able}
        said = {**found, "checks": [check._asdict() for check in checks]}
        print(json.dumps(said, indent=2))
    else:
        ending = without_gpu(checks) or [_verdict(able, device)]
        print("\n".join([*_lines(checks), "", *ending]))
    return 0 if able else 1


def _lines(checks: list[Check]) -> Iterator[str]:
    from fp8tune.words import plain

    width = max(len(check.name) for check in checks)
    for check in checks:
        yield plain(f"{check.state:8}{check.name:{width}}  {check.value}")
        for note in filter(None, (check.why, check.fix and f"-> {check.fix}")):
            yield plain(f"{'':8}{'':{width}}  {note}")


def _verdict(able: bool, device: str) -> str:
    where = "a rehearsal on the CPU" if device == "cpu" else "a search on this GPU"
    return f"{where} can run" if able else f"{where} cannot run yet"
