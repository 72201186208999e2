"""Time and memory of reading a trace of 1 GB, against streaming JSON libraries.

A recorded trace is repeated with moving timestamps: as torch.profiler writes it, as
``json.dumps`` does, packed, and with a made GPU kernel and its launch for each
operator. Each reader is a process of its own; fp8tune and ijson take turns, the
slow reader runs once. Needs ijson and json-stream:

    python tests/verify/record.py FOLDER
    python -m benchmarks.verify.traces FOLDER/tensorwise-eager.json
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.paths import RESULTS, ROOT

MAX_MIB, MAX_RATIO = 300.0, 1.5
SLOW = ("json-stream",)
TIMES = re.compile(r'("ts": )(\d+\.\d+)')
KERNELS = {
    "aten::_scaled_mm": "nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT",
    "aten::mm": "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
}
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::Functor>(int)"
)


def main(arguments: list[str] | None = None) -> int:
    """Write the traces, read them in turns, print and save."""
    parser = argparse.ArgumentParser(prog="traces", description=__doc__)
    parser.add_argument("trace", type=Path, help="a trace that torch.profiler wrote")
    parser.add_argument("--size", type=float, default=1e9, help="bytes of JSON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS / "verify_traces.json")
    parser.add_argument("--strict", action="store_true", help="exit 1 on a miss")
    parser.add_argument("--read-with", choices=READERS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.read_with:
        print(json.dumps(measure(options.read_with, options.trace)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        data = compare(options.trace, Path(folder), options.size, options.rounds)
    report = show(data)
    print(report)
    options.output.write_text(json.dumps(data, indent=2) + "\n")
    options.output.with_suffix(".md").write_text(report + "\n")
    return int(options.strict and not all(target["met"] for target in data["targets"]))


def compare(trace: Path, folder: Path, size: float, rounds: int) -> dict[str, Any]:
    """Return the measurements of all readers on all layouts."""
    entries = []
    load = [os.getloadavg()[0]]
    for layout, write in LAYOUTS.items():
        path = folder / layout.replace(" ", "-")
        unpacked = write(trace.read_text(), path, size)
        names = [name for name in READERS if layout == "torch" or name not in SLOW]
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for number in range(rounds):
            for name in names:
                if number == 0 or name not in SLOW:
                    runs[name].append(_process(name, path))
        path.unlink()
        entries += [_entry(layout, name, unpacked, runs[name]) for name in names]
    ratios = {layout: _ratio(entries, layout) for layout in LAYOUTS}
    load.append(os.getloadavg()[0])
    loads = {"load before and after": " ".join(f"{value:.1f}" for value in load)}
    most = max(each["peak_mib"] for each in entries if each["reader"] == "fp8tune")
    slowest = max(ratios.values())
    return {
        "environment": machine.describe("ijson", "json-stream") | loads,
        "measurements": entries,
        "ratios": ratios,
        "targets": [
            _target(f"peak <= {MAX_MIB:.0f} MiB", f"{most:.0f} MiB", most <= MAX_MIB),
            _target(
                f"time <= {MAX_RATIO} x the fastest library",
                f"{slowest:.2f} x",
                slowest <= MAX_RATIO,
            ),
        ],
    }


def _target(promise: str, measured: str, met: bool) -> dict[str, Any]:
    return {"promise": promise, "measured": measured, "met": met}


def _process(name: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.verify.traces", str(path)]
    command += ["--read-with", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _entry(
    layout: str, name: str, size: int, runs: list[dict[str, float]]
) -> dict[str, Any]:
    seconds = [round(run["seconds"], 2) for run in runs]
    return {
        "layout": layout,
        "reader": name,
        "mb": round(size / 1e6),
        "seconds": seconds,
        "median_s": statistics.median(seconds),
        "peak_mib": round(max(run["peak_mib"] for run in runs), 1),
        "events": int(runs[0]["events"]),
    }


def _ratio(entries: list[dict[str, Any]], layout: str) -> float:
    """Return fp8tune's time by that of the fastest library that streams."""
    times = {
        each["reader"]: each["median_s"] for each in entries if each["layout"] == layout
    }
    ours = times.pop("fp8tune")
    return float(round(ours / min(times.values()), 3))


def measure(name: str, path: Path) -> dict[str, float]:
    """Return seconds, peak memory [MiB] and events of one reader in this process."""
    begin = time.perf_counter()
    events = READERS[name](path)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mib": peak, "events": events}


def _open(path: Path) -> Any:
    return gzip.open(path) if path.name == "gzip" else path.open("rb")


def _fp8tune(path: Path) -> int:
    from fp8tune.verify.trace import read

    trace = read(path)
    if trace.cut or not trace.fp8.calls:
        raise ValueError(f"not read: {trace.cut}")
    return trace.events


def _ijson_items(path: Path) -> int:
    yajl2_c = import_module("ijson.backends.yajl2_c")

    with _open(path) as file:
        items = yajl2_c.items(
            file, "traceEvents.item", use_float=True, buf_size=1 << 20
        )
        return sum(1 for _ in items)


def _ijson_tokens(path: Path) -> int:
    yajl2_c = import_module("ijson.backends.yajl2_c")

    with _open(path) as file:
        tokens = yajl2_c.basic_parse(file, use_float=True, buf_size=1 << 20)
        return sum(1 for _ in tokens)


def _json_stream(path: Path) -> int:
    json_stream = import_module("json_stream")

    with _open(path) as file:
        return sum(1 for _ in json_stream.load(file)["traceEvents"])


READERS: dict[str, Callable[[Path], int]] = {
    "fp8tune": _fp8tune,
    "ijson items": _ijson_items,
    "ijson tokens": _ijson_tokens,
    "json-stream": _json_stream,
}
"""``ijson tokens`` makes no events of what it reads."""


def repeated(text: str, size: float) -> Iterator[str]:
    """Yield a trace again and again, each time later, up to a size in characters."""
    before, begins, rest = text.partition('"traceEvents": [')
    events, ends, after = rest.rpartition("]")
    parts = TIMES.split(events.rstrip())
    fixed = [a + b for a, b in zip(parts[0:-1:3], parts[1::3], strict=True)]
    times = [float(value) for value in parts[2::3]]
    span = max(times) - min(times) + 1e4
    yield before + begins
    written = number = 0
    while written < size:
        moved = [f"{value + number * span:.3f}" for value in times]
        pieces = [a + b for a, b in zip(fixed, moved, strict=True)]
        block = ("," if number else "") + "".join(pieces) + parts[-1]
        written += len(block)
        number += 1
        yield block
    yield ends + after


def _as_torch(text: str, path: Path, size: float) -> int:
    with path.open("w") as file:
        return sum(map(file.write, repeated(text, size)))


def _dumped(text: str, path: Path, size: float) -> int:
    return _as_torch(json.dumps(json.loads(text)), path, size)


def _packed(text: str, path: Path, size: float) -> int:
    with gzip.open(path, "wt", compresslevel=1) as file:
        return sum(map(file.write, repeated(text, size)))


def _with_kernels(text: str, path: Path, size: float) -> int:
    """Give each operator a launch and a kernel, as on a GPU."""
    document = json.loads(text)
    events = []
    for event in document["traceEvents"]:
        events.append(event)
        if event.get("cat") != "cpu_op" or "::engine::" in event["name"]:
            continue
        identity = {"correlation": len(events), "External id": len(events)}
        where = {key: event[key] for key in ("ph", "pid", "tid", "ts")}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 0.5}
        name = KERNELS.get(event["name"], ELEMENTWISE)
        kernel = {"cat": "kernel", "name": name, "pid": 0, "tid": 7, "dur": 0.7}
        detail = {"grid": [800, 1, 1], "block": [512, 1, 1], "stream": 7}
        events.append(where | launch | {"args": identity | {"cbid": 211}})
        events.append(where | kernel | {"args": identity | detail})
    document["traceEvents"] = events
    return _as_torch(json.dumps(document), path, size)


LAYOUTS: dict[str, Callable[[str, Path, float], int]] = {
    "torch": _as_torch,
    "json.dumps": _dumped,
    "gzip": _packed,
    "with made kernels": _with_kernels,
}


def show(data: dict[str, Any]) -> str:
    """Return the report in Markdown."""
    rows = [
        (
            each["layout"],
            each["reader"],
            f"{each['mb']:,}",
            f"{each['events']:,}",
            f"{each['median_s']:.1f}",
            f"{each['mb'] / each['median_s']:.0f}",
            f"{each['peak_mib']:,.0f}",
            str(len(each["seconds"])),
        )
        for each in data["measurements"]
    ]
    size = ("MB of JSON", "events or tokens")
    head = ("layout", "reader", *size, "median [s]", "MB/s", "peak [MiB]", "runs")
    lines = [f"- {key}: {value}" for key, value in data["environment"].items()]
    lines += ["", machine.table(rows, head), ""]
    for layout, ratio in data["ratios"].items():
        lines.append(f"- {layout}: {ratio:.2f} x the fastest library that streams")
    lines.append("")
    for target in data["targets"]:
        verdict = "PASS" if target["met"] else "FAIL"
        lines.append(f"- {verdict}: {target['promise']} ({target['measured']})")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
