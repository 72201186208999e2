"""A session on a GPU machine, rehearsed on the CPU, and the archive that it leaves.

The Python that runs it has torch and nothing of fp8tune's own: the rest comes from
wheels, which the test makes of what is installed here.
"""

import importlib.metadata
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from benchmarks.on_gpu import archive, session, take
from benchmarks.on_gpu.__main__ import main as on_gpu
from benchmarks.on_gpu.page import sessions

ROOT = Path(__file__).parents[2]
NOT_THERE = ("torchao", "optuna", "tomlkit", "click")
"""What a machine with torch lacks."""


@pytest.fixture(scope="module")
def head():
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def made_wheel(name, folder):
    """Make a wheel of an installed package, as its record lists its files."""
    found = importlib.metadata.distribution(name)
    lines = (found.read_text("WHEEL") or "").splitlines()
    tags = [line.partition(": ")[2] for line in lines if line.startswith("Tag: ")]
    tag = tags[0]
    path = folder / f"{name}-{found.version}-{tag}.whl"
    left_out = ("INSTALLER", "REQUESTED", "direct_url.json")
    with zipfile.ZipFile(path, "w") as wheel:
        for file in found.files or ():
            inside = ".." not in file.parts and "__pycache__" not in file.parts
            if inside and file.name not in left_out:
                wheel.write(str(file.locate()), str(file))


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python with torch and without what the wheels bring, and the wheels."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    links = folder / "links"
    links.mkdir()
    hidden = (*NOT_THERE, "fp8tune", "_editable")
    torch = importlib.metadata.distribution("torch")
    for entry in Path(str(torch.locate_file(""))).iterdir():
        if not entry.name.startswith((*hidden, "pip", "setuptools")):
            (links / entry.name).symlink_to(entry)
    (packages / "torch.pth").write_text(f"{links}\n")
    wheels = folder / "wheels"
    wheels.mkdir()
    for name in NOT_THERE:
        made_wheel(name, wheels)
    (wheels / "other-1.0-cp27-none-any.whl").write_bytes(b"not a wheel")
    python = folder / "venv" / "bin" / "python"
    probe = "import torch, importlib.util as u; print(u.find_spec('torchao'))"
    asked = subprocess.run([python, "-c", probe], capture_output=True, text=True)
    assert asked.stdout == "None\n"
    return python, wheels


def environment(tmp_path, head, python, **more):
    return {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "DEVICE": "cpu",
        "SCRATCH": str(tmp_path / "scratch"),
        "PYTHON": str(python),
        "COMMIT": head,
        "SEARCH_BUDGET": "45s",
        **more,
    }


def command(name, tmp_path, variables):
    return subprocess.Popen(
        [str(ROOT / "benchmarks" / "gpu_session.sh"), name, str(tmp_path / "out")],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )


def steps(tmp_path):
    files = archive.unpack(tmp_path / "out" / "session.tgz")
    lines = files["steps.jsonl"].decode().splitlines()
    return {row["step"]: row["outcome"] for row in map(json.loads, lines)}


def test_a_session_on_a_machine_with_torch_alone(tmp_path, head, bare):
    python, wheels = bare
    variables = environment(tmp_path, head, python, WHEELS=str(wheels))
    for name, seconds in (("first", "240"), ("next", "150"), ("last", "45")):
        variables["SECONDS_LEFT"] = seconds
        said, _ = command(name, tmp_path, variables).communicate()
        assert said
    ended = steps(tmp_path)
    measured = {k: v for k, v in ended.items() if k in session_steps()}
    assert (ended["wheels"], ended["wheel-other"]) == ("ended with 1", "ended with 1")
    assert measured == {
        "trial-alone": "finished",
        "trial-rank-0-of-16": "finished",
        "traces": "finished",
        "search": "finished",
        "stand-in": "skipped",
        "fp8-shapes": "finished",
        "rules": "skipped",
        "linears": measured["linears"],
    }
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["session.log", "session.tgz", "traces.tgz"]

    results = tmp_path / "results" / "on_gpu"
    (tmp_path / "results").mkdir()
    taken = ["take", str(tmp_path / "out" / "session.tgz"), "--results", str(results)]
    assert on_gpu(taken) == 0
    (found,) = sessions(results)
    assert (found.has_gpu, found.unreadable) == (False, [])
    assert {row.setting["micro_batch"] for row in found.settings} >= {1, 8}
    page = results.with_suffix(".md").read_text()
    assert "a rehearsal on a CPU" in page
    assert "Not reached: the built-in trial beside KempnerForge's own training" in page
    assert not any("/" in path.read_text() for path in found.folder.glob("steps.jsonl"))


def session_steps():
    place = session.Place("cpu", Path())
    return {"search"} | {s.name for c in ("first", "last") for s in place.steps(c)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_killed_loses_no_finished_step(tmp_path, head, number):
    variables = environment(tmp_path, head, sys.executable, SECONDS_LEFT="120")
    running = command("first", tmp_path, variables)
    said = []
    try:
        for line in running.stdout:
            said.append(line)
            if "trial-alone: at most" in line:
                break
        time.sleep(random.uniform(0.0, 12.0))
    finally:
        running.send_signal(number)
        said += running.communicate()[0].splitlines(keepends=True)
    finished = {line.split()[4] for line in said if ": finished" in line}
    kept = {name for name, outcome in steps(tmp_path).items() if outcome == "finished"}
    assert finished
    assert finished <= {f"{name}:" for name in kept}


def test_no_gpu_ends_in_the_words_of_the_doctor(tmp_path, head):
    variables = environment(tmp_path, head, sys.executable, DEVICE="cuda")
    variables["CUDA_VISIBLE_DEVICES"] = ""
    running = command("first", tmp_path, variables)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "no NVIDIA GPU found here" in said
    assert "ends here because of: gpu" in said
    assert (tmp_path / "out" / "session.log").exists()


def archived(path, *entries):
    with tarfile.open(path, "w:gz") as tar:
        for entry in entries:
            name, data = entry if isinstance(entry, tuple) else (entry.name, None)
            if data is None:
                tar.addfile(entry)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def link(name, kind=tarfile.SYMTYPE):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, "/etc/passwd"
    return entry


GOOD = ("environment.json", b'{"commit": "COMMIT", "date": "2026-12-01"}')
BAD = {
    "a link": (link("results/a.json"), "is no plain file"),
    "a hard link": (link("results/a.json", tarfile.LNKTYPE), "is no plain file"),
    "an absolute path": (("/tmp/a.json", b"{}"), "is no path of a session"),
    "a path upwards": (("results/../../a.json", b"{}"), "is no path of a session"),
    "a control character": (("a\x1b[2J", b"{}"), r"a\x1b[2J is no path of a session"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_archive_that_is_not_safe_is_refused(tmp_path, head, case):
    entry, why = BAD[case]
    good = GOOD[0], GOOD[1].replace(b"COMMIT", head.encode())
    path = archived(tmp_path / "session.tgz", good, entry)
    with pytest.raises(take.Refused) as refused:
        take.take(path, tmp_path / "results")
    assert why in str(refused.value)
    assert not (tmp_path / "results").exists()


def test_an_archive_that_is_no_session_is_refused(tmp_path, head, capsys):
    good = GOOD[0], GOOD[1].replace(b"COMMIT", head.encode())
    whole = archived(tmp_path / "whole.tgz", good, ("results/a.json", b"1" * 9000))
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(whole.read_bytes()[:-40])
    other = GOOD[0], GOOD[1].replace(b"COMMIT", b"0123456789" * 4)
    cases = {
        cut: "is cut off",
        tmp_path / "absent.tgz": "No such file",
        archived(tmp_path / "empty.tgz"): "is empty",
        archived(tmp_path / "a.tgz", ("a.json", b"{}")): "has no environment.json",
        archived(tmp_path / "b.tgz", GOOD): "names no commit; add --commit",
        archived(tmp_path / "c.tgz", other): "is not in the history of this checkout",
    }
    (tmp_path / "text.tgz").write_text("not an archive")
    cases[tmp_path / "text.tgz"] = "not a complete .tgz file"
    results = tmp_path / "results"
    for path, why in cases.items():
        assert on_gpu(["take", str(path), "--results", str(results)]) == 2
        assert why in capsys.readouterr().err
    assert list(results.iterdir()) == []
    assert on_gpu(["take", str(whole), "--results", str(results)]) == 0


def test_another_session_of_the_day_stays(tmp_path, head):
    results = tmp_path / "results"
    for time_of_day in ("10:00:00", "10:20:00", "10:20:00"):
        about = {"commit": head, "date": "2026-12-01", "time": time_of_day}
        environment = "environment.json", json.dumps(about).encode()
        take.take(archived(tmp_path / "s.tgz", environment), results)
    names = sorted(path.name for path in results.iterdir())
    assert names == [f"2026-12-01_10-{m}-00_cpu_{head[:8]}" for m in ("00", "20")]


def test_what_is_cut_off_in_an_archive_costs_itself_alone(tmp_path, head):
    good = GOOD[0], GOOD[1].replace(b"COMMIT", head.encode())
    step = b'{"step": "traces", "outcome": "ended with 1", "seconds": 3}\n'
    config = (ROOT / "configs" / "llama3_7b_16xh100_fp8.toml").read_bytes()
    knobs = {"train.batch_size": 4}
    record = {"knobs": knobs, "outcome": "ok", "tokens_per_second": 2e5, "cost_s": 60}
    record |= {"gpu": "h100-sxm", "world_size": 16, "extrapolated": "rank 0 of 16"}
    failed = {"knobs": {"train.batch_size": 8}, "outcome": "oom"}
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in (record, failed))
    path = archived(
        tmp_path / "session.tgz",
        good,
        ("steps.jsonl", step + b'{"step": "sea'),
        ("results/trial.jsonl", lines + b'{"knobs": {'),
        ("results/trial.toml", config),
        ("results/traces_cuda.json", b"[1]"),
        ("results/broken.json", b"{"),
    )
    results = tmp_path / "on_gpu"
    assert on_gpu(["take", str(path), "--results", str(results)]) == 0
    page = (tmp_path / "on_gpu.md").read_text()
    assert "batch 4 x 4, AC full, compiled, 16 GPUs, rank 0 of 16 |" in page
    assert re.search(r"\| trial \| train.batch_size = 8 \| oom \| 7\d\.\d \|", page)
    assert "Not readable: traces_cuda.json (TypeError)." in page
    assert "Not reached: one trial of 8 layers, alone;" in page
    assert "traces of FP8" not in page


def test_a_rehearsal_is_no_part_of_a_session_on_a_gpu(monkeypatch, tmp_path):
    monkeypatch.delenv("SCRATCH", raising=False)
    monkeypatch.setattr(session.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("COMMIT", "0123456789abcdef")
    folders = set()
    for device in ("cpu", "cuda"):
        monkeypatch.setenv("DEVICE", device)
        folders.add(session._place("").folder.name.partition("-")[2].partition("-")[2])
    assert folders == {"cpu-0123456789ab", "cuda-0123456789ab"}


def test_an_archive_keeps_below_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_PACKED", 20_000)
    for size in (1000, 5000, 30_000):
        (tmp_path / f"{size}.bin").write_bytes(random.randbytes(size))
    files = archive.files_below(tmp_path)
    left_out = archive.pack(tmp_path, files, tmp_path / "x.tgz")
    assert left_out == [tmp_path / "30000.bin"]
    assert set(archive.unpack(tmp_path / "x.tgz")) == {"1000.bin", "5000.bin"}
