"""Machines to judge: what such a node would tell, written by hand."""

from fp8tune.doctor.machine import Machine
from fp8tune.runners.gpu import Gpu, Process

NODE = Machine(
    python="3.12.3",
    gpu=Gpu("NVIDIA H200", "580.82.07", 140.4, "9.0", "NVML", 2),
    processes=(),
    packages={
        "jinja2": "3.1.6",
        "matplotlib": "3.11.2",
        "numpy": "2.4.6",
        "nvidia-ml-py": "13.590.44",
        "optuna": "5.0.0",
        "rich": "15.0.0",
        "torch": "2.13.0",
        "torchao": "0.18.0",
        "triton": "3.7.0",
    },
    probe={
        "torch": "2.13.0+cu130",
        "torch_cuda": "13.0",
        "device": "NVIDIA H200",
        "capability": "9.0",
        "memory_gib": 139.8,
        "torchao": "0.18.0",
        "fp8": True,
    },
    stopped=("", ""),
    compiler="/usr/bin/c++",
    slurm="job 12",
    allocator="default",
)
MACHINES = {
    "h200": NODE,
    "login-node": NODE._replace(gpu=Gpu(), slurm="no job"),
    "a100": NODE._replace(
        gpu=Gpu("NVIDIA A100", "580.82.07", 80.0, "8.0", "NVML"),
        probe=NODE.probe | {"capability": "8.0", "fp8": None},
        stopped=("fp8", "RuntimeError: no FP8"),
    ),
    "bare": NODE._replace(
        packages=dict.fromkeys(NODE.packages, ""),
        compiler="",
        processes=(Process(7, "python", 3.0),),
    ),
}
