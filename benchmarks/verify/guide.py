"""Record the runs that the guide on ``fp8tune verify`` shows.

``python -m benchmarks.verify.guide PYTHON CHECKOUT`` runs KempnerForge's training
script on the CPU, a tiny model in FP8: once with a filter that converts no linear, with
its profiler, and once with a learning rate that is far too high. Logs and traces go to
``docs/verify``, beside two traces of a GPU that are made: only their names are real.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from pathlib import Path

from benchmarks.paths import ROOT
from benchmarks.verify import log_runs
from benchmarks.verify.log_fixtures import ended, trimmed
from tests.support.traces import Kernel, Op, mm, node, step, write

PROFILING = """[profiling]
enable = true
start_step = 5
end_step = 6
trace_dir = "traces"
"""


def main() -> None:
    """Record both runs; with a case and a checkout behind ``--run``, be one of them."""
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], sys.argv[3])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", type=Path)
    parser.add_argument("checkout", type=Path)
    given = parser.parse_args()
    python, checkout = given.python.absolute(), given.checkout.resolve()
    place = ROOT / "docs" / "verify"
    made(place)
    for case in ("filtered", "diverging"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            log = trained(python, checkout, case, folder)
            (place / case / "traces").mkdir(parents=True, exist_ok=True)
            (place / case / "train.log").write_bytes(log)
            config = (folder / "train.toml").read_text(encoding="utf-8").lstrip()
            (place / case / "train.toml").write_text(config, encoding="utf-8")
            for trace in folder.glob("traces/*.json"):
                packed = gzip.compress(trace.read_bytes(), 9, mtime=0)
                path = place / case / "traces" / "rank0.pt.trace.json.gz"
                path.write_bytes(packed)


NVJET = "nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT"
LINEAR = "matmul_with_hp_or_float8_args"


def made(folder: Path) -> None:
    """Write traces of a step whose GPU waits, for launches and for the host."""
    cast = Op("aten::to", [Kernel("vectorized_elementwise_kernel", 4.0)], us=60.0)
    item = Op(
        "aten::item", [Kernel("Memcpy DtoH", 2.0, "cudaStreamSynchronize")], us=400.0
    )
    for name, us, gap in (("launch_bound", 12.0, cast), ("synchronising", 200.0, item)):
        gemm = mm(512, 1024, 1024, NVJET, "aten::_scaled_mm", us=us)
        backward = [node(f"{LINEAR}Backward", gemm, gemm), gap] * 12
        made_step = step(1, *[gemm, gap] * 12, *backward)
        path = folder / f"{name}.json"
        write(path, made_step)


def run(case: str, checkout: str) -> None:
    """Run one case in the current folder."""
    if case == "filtered":
        log_runs.STEPS = 12
        log_runs.KEMPNERFORGE += PROFILING
    else:
        log_runs.STEPS = 40
        text = log_runs.KEMPNERFORGE.replace("{rate}", "1.0")
        log_runs.KEMPNERFORGE = text
    kind = "fp8_filtered" if case == "filtered" else "fp8"
    sys.argv = ["log_runs", "kempnerforge", kind, checkout]
    log_runs.main()


def trained(python: Path, checkout: Path, case: str, folder: Path) -> bytes:
    """Return what a run printed, without warnings of libraries and its tables."""
    command = [str(python), "-m", "benchmarks.verify.guide", "--run", case]
    done = ended([*command, str(checkout)], folder)
    done.check_returncode()
    lines = trimmed(done.stdout, [str(folder), str(checkout)])
    return b"".join(line for line in lines if line.startswith(b"[rank 0]"))


if __name__ == "__main__":
    main()
