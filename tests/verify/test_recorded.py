"""The verdict on each trace that torch.profiler recorded on this CPU."""

import gzip
import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from fp8tune.verify.evidence import Left
from fp8tune.verify.trace import read
from fp8tune.verify.verdict import judge

YES, NO = True, False
EXPECTED = {
    # GEMMs in FP8 and in 16 or 32 bit; whether FP8 ran forward and backward, whether
    # anything ran backward, whether it was compiled; casts
    # six FP8 GEMMs a step; compiled, the gradient of the first input is left out
    "tensorwise-eager.json": (12, 6, YES, YES, YES, NO, 24),
    "tensorwise-compiled.json": (10, 6, YES, YES, YES, YES, 0),
    "rowwise-eager.json": (12, 6, YES, YES, YES, NO, 24),
    "rowwise-compiled.json": (10, 6, YES, YES, YES, YES, 0),
    # the gradients of the weights are in bf16
    "rowwise_with_gw_hp-eager.json": (8, 10, YES, YES, YES, NO, 16),
    "rowwise_with_gw_hp-compiled.json": (6, 10, YES, YES, YES, YES, 0),
    "bf16-eager.json": (0, 16, NO, NO, YES, NO, 0),
    "bf16-compiled.json": (0, 16, NO, NO, YES, YES, 0),
    "empty-filter.json": (0, 16, NO, NO, YES, NO, 0),
    # casts to FP8, then GEMMs in fp32
    "casts-only.json": (0, 18, NO, NO, YES, NO, 24),
    # the forward GEMMs run once more inside the backward pass
    "checkpointed.json": (16, 8, YES, YES, YES, NO, 32),
    # the same, but the gradients are computed in bf16
    "forward-only.json": (4, 4, YES, NO, YES, NO, 8),
    "inference.json": (4, 2, YES, NO, NO, NO, 8),
    "grouped.json": (0, 3, NO, NO, YES, NO, 0),
    "muon.json": (0, 4, NO, NO, YES, NO, 0),
    # compiled while it was recorded: operators on fake tensors do not count
    "recompiled.json": (10, 6, YES, YES, YES, YES, 40),
    "compiled-autograd.json": (10, 6, YES, YES, YES, YES, 20),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    script = Path(__file__).with_name("record.py")
    command = [sys.executable, "-W", "ignore", str(script), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return folder


def summary(trace):
    passes = (trace.forward, trace.backward, trace.trains)
    return (trace.fp8.calls, trace.other.calls, *passes, trace.compiled, trace.casts)


def test_recorded_traces(folder, tmp_path):
    assert {path.name for path in folder.iterdir()} == EXPECTED.keys()
    traces = {name: read(folder / name) for name in EXPECTED}
    assert {name: summary(trace) for name, trace in traces.items()} == EXPECTED
    assert {trace.cut for trace in traces.values()} == {""}
    words = {name: judge([], [trace]).word for name, trace in traces.items()}
    assert words == {name: word(*EXPECTED[name]) for name in EXPECTED}
    shapes_and_flops(traces)
    time_in_steps(traces)
    packed_in_other_ways(folder, tmp_path, traces["checkpointed.json"])
    cut_anywhere(folder, tmp_path)


def word(fp8, other, forward, backward, trains, compiled, casts):
    """The verdict on a trace without its config."""
    if not fp8:
        return "partly" if casts else "not-fp8"
    if not trains:
        return "cannot-tell"
    if backward is False:
        return "partly"
    return "verified" if fp8 > other else "cannot-tell"


def shapes_and_flops(traces):
    eager = traces["tensorwise-eager.json"]
    linear, head = 2 * 48 * 32 * 64, 2 * 48 * 32 * 16
    assert (eager.fp8.flops, eager.fp8.with_shapes) == (12 * linear, 12)
    assert (eager.other.flops, eager.other.with_shapes) == (6 * head, 6)
    bf16 = "c10::BFloat16"
    assert {replace(left, us=0.0) for left in eager.left} == {
        Left("aten::addmm", (48, 32, 16), 2, 0.0, bf16, "forward"),
        Left("aten::mm", (48, 16, 32), 2, 0.0, bf16, "backward"),
        Left("aten::mm", (16, 48, 32), 2, 0.0, bf16, "backward"),
    }
    assert {(ran.shape, ran.dtype[-6:], ran.phase) for ran in eager.ran} == {
        ((48, 32, 64), "e4m3fn", "forward"),
        ((48, 64, 32), "e4m3fn", "forward"),
        ((48, 32, 64), "8_e5m2", "backward"),
        ((48, 64, 32), "8_e5m2", "backward"),
        ((32, 48, 64), "8_e5m2", "backward"),
        ((64, 48, 32), "8_e5m2", "backward"),
    }
    assert sum(ran.us for ran in eager.ran) == pytest.approx(eager.fp8.us)
    muon = traces["muon.json"]
    assert muon.optimizer.calls == 30
    assert muon.optimizer.flops > muon.other.flops
    grouped = traces["grouped.json"]
    assert grouped.other.flops == 3 * 2 * 32 * 64 * 48
    assert {left.name for left in grouped.left} == {"aten::_grouped_mm"}


def time_in_steps(traces):
    eager = traces["tensorwise-eager.json"]
    assert (eager.device, eager.steps) == ("cpu", 2)
    assert eager.busy_us == eager.gpu_us == 0.0
    assert 0 < eager.fp8.us < eager.span_us
    assert eager.data.calls == 2
    assert eager.waits.keys() == {"aten::_local_scalar_dense"}
    assert (eager.recompiles, traces["recompiled.json"].recompiles) == (0, 1)


def packed_in_other_ways(folder, tmp_path, plain):
    """The same events in other layouts and archives say the same."""
    text = (folder / "checkpointed.json").read_text()
    document = json.loads(text)
    (tmp_path / "plain").write_text(text)
    (tmp_path / "compact").write_text(json.dumps(document))
    (tmp_path / "array").write_text(json.dumps(document["traceEvents"], indent=2))
    (tmp_path / "open").write_text(json.dumps(document["traceEvents"])[:-1])
    (tmp_path / "windows").write_bytes(
        b"\xef\xbb\xbf" + json.dumps(document, indent=1).replace("\n", "\r\n").encode()
    )
    backwards = document | {"traceEvents": document["traceEvents"][::-1]}
    (tmp_path / "backwards").write_text(json.dumps(backwards))
    packed = gzip.compress(text.encode())
    (tmp_path / "gzip").write_bytes(packed)
    for name, data in (("zip", text), ("gzip-in-zip", packed)):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            ending = ".gz" if name == "gzip-in-zip" else ""
            archive.writestr(f"a/rank0.json{ending}", data)
    for path in tmp_path.iterdir():
        assert replace(read(path), path="") == replace(plain, path=""), path.name


def cut_anywhere(folder, tmp_path):
    """A trace that ends too early counts as far as it goes, and says so."""
    data = (folder / "tensorwise-compiled.json").read_bytes()
    packed = gzip.compress(data)
    counts = []
    for part in range(1, 12):
        (tmp_path / "cut").write_bytes(data[: part * len(data) // 12])
        trace = read(tmp_path / "cut")
        assert trace.cut
        assert not (trace.backward is False and trace.fp8.calls)
        counts.append((trace.events, trace.fp8.calls))
        (tmp_path / "packed").write_bytes(packed[: part * len(packed) // 12])
        assert read(tmp_path / "packed").cut
    assert counts == sorted(counts)
    assert counts[-1][1] > 0
