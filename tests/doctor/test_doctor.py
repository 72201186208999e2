"""What a machine lacks, from what was found on it; and a torch that hangs or breaks."""

import re
import sys

import pytest

from fp8tune.doctor.judge import can_search, judge
from fp8tune.doctor.machine import Ranks
from fp8tune.extras import INSTALL
from fp8tune.runners import probe
from fp8tune.runners.builtin import reduce
from fp8tune.runners.gpu import Gpu, Process
from tests.doctor.machines import NODE
from tests.each import each
from tests.metadata import write_metadata
from tests.runners import fake_nvml


def missing(machine, device="cuda", state="missing"):
    return [check for check in judge(machine, device) if check.state == state]


def without(name):
    return NODE._replace(packages=NODE.packages | {name: ""})


@each(
    ("machine", "name", "why", "fix"),
    [
        (NODE._replace(gpu=Gpu()), "gpu", "no NVIDIA GPU found", "GPU node"),
        (NODE._replace(gpu=Gpu(), slurm="no job"), "gpu", "no NV", "srun --gpus=1"),
        (
            NODE._replace(
                gpu=Gpu(), failed="NVML fails: Unknown Error", slurm="no job"
            ),
            "gpu",
            "NVML fails: Unknown Error",
            "restart the driver",
        ),
        (without("torch"), "torch", "", INSTALL),
        (without("optuna"), "optuna", "", INSTALL),
        (
            NODE._replace(probe={"torch": "2.13.0+cpu", "torch_cuda": None}),
            "cuda",
            "this torch is for CPUs",
            "pytorch.org",
        ),
        (
            NODE._replace(
                probe={"torch": "2.13.0", "torch_cuda": "13.0"},
                stopped=("device", "RuntimeError: driver too old"),
            ),
            "cuda",
            "torch cannot use the GPU: RuntimeError: driver too old",
            "pytorch.org",
        ),
        (
            NODE._replace(
                probe=NODE.probe | {"capability": "8.0", "fp8": None},
                stopped=("fp8", "RuntimeError: no FP8"),
            ),
            "fp8",
            "FP8 matmuls need 8.9",
            "GPU node",
        ),
        (
            NODE._replace(probe=NODE.probe | {"fp8": False}),
            "fp8",
            "an FP8 matmul gave a wrong result",
            "pytorch.org",
        ),
    ],
)
def test_what_is_missing(machine, name, why, fix):
    assert not can_search(judge(machine, "cuda"))
    (found,) = missing(machine)
    assert found.name == name
    assert why in found.why
    assert fix in found.fix


@each(
    ("machine", "name"),
    [
        (without("triton"), "triton"),
        (without("nvidia-ml-py"), "nvidia-ml-py"),
        (NODE._replace(processes=(Process(7, "python", 3.0),)), "other processes"),
        (NODE._replace(gpu=Gpu("NVIDIA H100 MIG 1g.10gb", "580.82.07", 9.5)), "gpu"),
    ],
)
def test_what_a_search_can_do_without(machine, name):
    assert can_search(judge(machine, "cuda"))
    (found,) = missing(machine, state="warning")
    assert found.name == name
    assert found.why
    assert found.fix


@pytest.mark.parametrize(
    ("code", "said", "stopped"),
    [
        ('print(\'{"torch": "1"}\')', {"torch": "1"}, ("", "")),
        (
            'print(\'{"stage": "fp8"}\\n{"failed": {"error": "E", "message": "m"}}\')',
            {},
            ("fp8", "E: m"),
        ),
        ("import os; os.abort()", {}, ("start", "ended with code -6")),
        (
            "print('{\"failed\": 1}'); exit(2)",
            {},
            ("start", "ended with code 2"),
        ),
    ],
)
def test_a_torch_that_breaks(code, said, stopped):
    assert probe.ask("cpu", (), (sys.executable, "-c", code)) == (said, stopped)


def test_a_torch_that_hangs():
    code = 'import time; print(\'{"stage": "torch"}\', flush=True); time.sleep(99)'
    said, (stage, why) = probe.ask("cpu", (), (sys.executable, "-c", code), 5.0)
    assert (said, stage) == ({}, "torch")
    assert re.fullmatch(r"no answer within \d+ s", why)


TORCH = """
import json
said = {"torch": "2.13.0", "torch_cuda": "13.0", "device": "NVIDIA H200",
        "capability": "9.0", "memory_gib": 139.8, "driver_cuda": "13.0", "fp8": True}
print(json.dumps(said))
"""


def checked(fp8tune):
    """Every check by its name, as JSON tells it, without what is empty."""
    said = fp8tune("doctor", "--output-format", "json").json
    kept = ({k: v for k, v in check.items() if v} for check in said["checks"])
    return said["can_search"], {check.pop("name"): check for check in kept}


def test_the_command_without_a_gpu(fp8tune, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    fake_nvml.hide(tmp_path, monkeypatch)
    done = fp8tune("doctor")
    assert done.code == 1
    assert "gpu           none" in done.out
    assert done.out.endswith(
        "\n\nno GPU here: a search on one cannot run\n"
        "  works here   lint, estimate, explain, verify, compare, phases\n"
        "  on the CPU   a rehearsal of the search: fp8tune doctor --device cpu\n"
    )
    able, checks = checked(fp8tune)
    assert not able
    assert checks["gpu"]["state"] == "missing"


def test_the_command_where_torch_alone_knows_the_gpu(fp8tune, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    fake_nvml.hide(tmp_path, monkeypatch)
    monkeypatch.setattr(probe, "COMMAND", (sys.executable, "-c", TORCH))
    _, checks = checked(fp8tune)
    assert checks["gpu"] == {"state": "ok", "value": "NVIDIA H200, 139.8 GiB"}
    assert (checks["driver"]["state"], checks["driver"]["value"]) == (
        "warning",
        "CUDA 13.0",
    )
    assert checks["fp8"]["value"] == "yes, compute capability 9.0"


def test_a_rehearsal_with_a_real_torch(fp8tune):
    pytest.importorskip("torchao", exc_type=ImportError)
    said = fp8tune("doctor", "--device", "cpu", "--output-format", "json")
    assert (said.code, said.json["can_search"]) == (0, True)
    checks = {check["name"]: check for check in said.json["checks"]}
    two = checks["two ranks"]
    assert (two["state"], two["value"].split()[0]) == ("ok", "gloo")


@each(
    ("versions", "device", "state", "value", "fix"),
    [
        (
            {"torch": "2.14.1", "torchao": "0.17.0"},
            "cuda",
            "missing",
            "torch 2.14.1 with torchao 0.17.0",
            "pip install 'torchao>=0.18'",
        ),
        (
            {"torch": "2.9.1", "torchao": "0.18.0"},
            "cpu",
            "missing",
            "torchao 0.18.0 with torch 2.9.1",
            "pip install 'torch>=2.11'",
        ),
        (
            {"torch": "2.16.0", "torchao": "0.17.0"},
            "cuda",
            "warning",
            "torch 2.16.0 with torchao 0.17.0",
            "pip install 'torchao>=0.18'",
        ),
        (
            {"torch": "2.14.1"},
            "cuda",
            "info",  # what it concerns is not what a search does
            "torch 2.14.1",
            "",
        ),
    ],
)
def test_versions_that_are_unsafe_together(versions, device, state, value, fix):
    machine = NODE._replace(packages=NODE.packages | versions)
    checks = [each for each in judge(machine, device) if each.name == "versions"]
    assert (checks[0].state, checks[0].value, checks[0].fix) == (state, value, fix)
    assert can_search(checks) == (state != "missing")


def test_the_metadata_of_the_environment_says_the_versions(
    fp8tune, tmp_path, monkeypatch
):
    fake_nvml.install(tmp_path, monkeypatch, count=0)
    write_metadata(tmp_path / "site", {"torch": "2.14.1", "torchao": "0.17.0"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    said = fp8tune("doctor", "--output-format", "json")
    assert (said.code, said.json["can_search"]) == (1, False)
    (check,) = (
        each
        for each in said.json["checks"]
        if each["name"] == "versions" and each["state"] == "missing"
    )
    assert check == {
        "name": "versions",
        "state": "missing",
        "value": "torch 2.14.1 with torchao 0.17.0",
        "why": "compiled FP8 of linears by torchao: about 25 % of compiled FP8 runs "
        "get a NaN or infinite loss, because Triton miscompiles stores of FP8 values",
        "fix": "pip install 'torchao>=0.18'",
    }


def ranks(**changed):
    return NODE._replace(ranks=NODE.ranks._replace(**changed))


@each(
    ("machine", "name", "why", "fix"),
    [
        (ranks(failed="OSError: x"), "two ranks", "cannot run: OSError: x", "NCCL_DE"),
        (ranks(shared_gib=0.06), "/dev/shm", "need 1 GiB of /dev", "--shm-size=1"),
        (ranks(shared_gib=None), "/dev/shm", "need 1 GiB of /dev", "--shm-size=1"),
        (ranks(torchrun=""), "torchrun", "", "python -m torch.distributed.run"),
        (ranks(unresolved=("hostname=n7",)), "host name", "may not find", "/etc/hosts"),
    ],
)
def test_what_several_ranks_lack_stops_no_search_with_one(machine, name, why, fix):
    assert can_search(judge(machine, "cuda"))
    (check,) = missing(machine, state="warning")
    assert check.name == name
    assert why in check.why
    assert fix in check.fix


def test_a_single_gpu_runs_one_rank():
    one = NODE._replace(gpu=NODE.gpu._replace(visible=1), ranks=Ranks(shared_gib=9.0))
    (check,) = (c for c in judge(one, "cuda") if c.name == "visible gpus")
    assert check.why == "fp8tune search --ranks N needs several"


SILENT = "import os; os._exit(7)"
WRONG = """
import json
print(json.dumps({"failed": {"error": "ValueError", "message": "no gloo"}}))
"""


@each(
    ("code", "why"),
    [
        (SILENT, "a rank ended with code 7 in stage start"),
        (WRONG, "ValueError: no gloo"),
    ],
)
def test_two_ranks_that_do_not_work(code, why):
    assert reduce.try_two("cpu", (sys.executable, "-c", code)) == ("", why)
