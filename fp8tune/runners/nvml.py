"""Print the state of the GPU by NVML, in a process that runs as long as a search.

``python -m fp8tune.runners.nvml PARENT GPUS`` prints one JSON object per line: ``gpu``,
or ``failed`` with the reason, then a ``sample`` every ``EVERY_S``, of the first GPUs
that torch sees taken together. It reads no input.
It is a separate process because a driver that hangs blocks its caller. It runs for the
whole search because a driver without persistence mode unloads when the last process
that uses it ends. The next process would wait 1 to 3 s per GPU for its start
(docs.nvidia.com/deploy/driver-persistence) and read a high use of an idle GPU, whose
memory is scrubbed (NVML reference, nvmlDeviceGetUtilizationRates).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

from fp8tune.runners.gpu import Gpu, Process, Sample, together
from fp8tune.runners.orphan import die_with_parent
from fp8tune.runners.process import module_command

COMMAND = module_command("fp8tune.runners.nvml")
EVERY_S = 0.25
"""Time between two samples [s]."""
GIB = 2**30


class Failed(NamedTuple):
    """Why NVML found no GPU: ``""`` if there is none.

    ``absent`` says that NVML or its Python module is not on this machine.
    """

    failed: str
    absent: bool = False


def read(line: str) -> Gpu | Sample | Failed | None:
    """Parse a line of the process; ``None`` for any other line."""
    try:
        event: Any = json.loads(line)
        if "gpu" in event:
            return Gpu(**event["gpu"])
        if "failed" in event:
            return Failed(**event)
        listed = event["sample"]["processes"]
        processes = None if listed is None else tuple(Process(*one) for one in listed)
        return Sample(**{**event["sample"], "processes": processes})
    except (ValueError, LookupError, TypeError):
        return None


def say(**fields: Any) -> None:
    """Print one line to the parent."""
    print(json.dumps(fields), flush=True)


def main(count: int) -> None:
    """Print the first of ``count`` GPUs and the state of all until the parent ends."""
    try:
        import pynvml
    except ImportError:
        say(failed="nvidia-ml-py is not installed", absent=True)
        return
    try:
        pynvml.nvmlInit()
        gpus = NvmlGpus(pynvml, count)
    except pynvml.NVMLError_LibraryNotFound:
        say(failed="this machine has no libnvidia-ml.so.1", absent=True)
    except pynvml.NVMLError as error:
        say(failed=str(error), absent=False)
    else:
        if gpus.any_sliced():  # its figures would be those of all slices together
            say(failed="NVML is not asked about a slice (MIG)", absent=True)
        else:
            gpus.print_states()


def visible_gpus(
    uuids: Sequence[str], environment: Mapping[str, str] = os.environ
) -> list[int]:
    """Return the numbers of the GPUs that torch sees; rank i of a trial takes the i-th.

    ``CUDA_VISIBLE_DEVICES`` names them by number, UUID or the beginning of one, up to
    the first name that is not listed.
    """
    names = environment.get("CUDA_VISIBLE_DEVICES", "").strip()
    if not names:
        return list(range(len(uuids)))
    seen = []
    for name in map(str.strip, names.split(",")):
        for number, uuid in enumerate(uuids):
            if name == str(number) or uuid.startswith(name):
                seen.append(number)
                break
        else:
            break
    return seen


class NvmlGpus:
    """The first GPUs that torch sees, as NVML knows them."""

    def __init__(self, nvml: ModuleType, count: int) -> None:
        self._nvml = nvml
        listed = []
        for index in range(nvml.nvmlDeviceGetCount()):
            # GPUs that this job may not use are skipped, as torch does not see them
            with suppress(nvml.NVMLError):
                listed.append(nvml.nvmlDeviceGetHandleByIndex(index))
        uuids = [nvml.nvmlDeviceGetUUID(gpu) for gpu in listed]
        self.seen = [listed[number] for number in visible_gpus(uuids)]
        self.watched = self.seen[:count]

    def any_sliced(self) -> bool:
        """Whether torch sees a slice of a GPU (MIG)."""
        modes = (
            self._or((0, 0), self._nvml.nvmlDeviceGetMigMode, gpu) for gpu in self.seen
        )
        named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return "MIG-" in named or any(now for now, _ in modes)

    def _or(self, otherwise: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Ask NVML; return ``otherwise`` if this driver or GPU has no answer."""
        with suppress(self._nvml.NVMLError):
            return ask(*arguments)
        return otherwise

    def print_states(self) -> None:
        """Print the first GPU, then the state of all periodically."""
        if not self.watched:
            say(failed="", absent=False)
            return
        say(gpu=self._gpu(self.watched[0])._asdict())
        while True:
            say(sample=together([self._state(gpu) for gpu in self.watched])._asdict())
            time.sleep(EVERY_S)

    def _gpu(self, gpu: Any) -> Gpu:
        nvml = self._nvml
        memory = self._or(None, nvml.nvmlDeviceGetMemoryInfo, gpu)
        capability = self._or((), nvml.nvmlDeviceGetCudaComputeCapability, gpu)
        driver = self._or("", nvml.nvmlSystemGetDriverVersion)
        total = memory.total / GIB if memory else 0.0
        major = ".".join(map(str, capability))
        name = nvml.nvmlDeviceGetName(gpu)
        return Gpu(name, driver, total, major, "NVML", len(self.seen))

    def _state(self, gpu: Any) -> Sample:
        nvml, ask = self._nvml, self._or
        joules = ask(None, nvml.nvmlDeviceGetTotalEnergyConsumption, gpu)
        use = ask(None, nvml.nvmlDeviceGetUtilizationRates, gpu)
        heat = nvml.nvmlDeviceGetTemperature
        return Sample(
            time=time.time(),
            sm_mhz=ask(None, nvml.nvmlDeviceGetClockInfo, gpu, nvml.NVML_CLOCK_SM),
            temperature_c=ask(None, heat, gpu, nvml.NVML_TEMPERATURE_GPU),
            used_gib=self._used(gpu),
            # the name that all drivers know
            reasons=ask(None, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, gpu),
            busy=None if use is None else use.gpu / 100,
            energy_j=None if joules is None else joules / 1e3,
            processes=self._processes(gpu),
        )

    def _used(self, gpu: Any) -> float | None:
        """Return the memory of processes [GiB], without the driver's own."""
        nvml = self._nvml
        asked = (nvml.nvmlDeviceGetMemoryInfo, gpu, nvml.nvmlMemory_v2)
        memory = self._or(None, *asked)
        return None if memory is None else memory.used / GIB

    def _processes(self, gpu: Any) -> tuple[Process, ...] | None:
        nvml = self._nvml
        running = self._or(None, nvml.nvmlDeviceGetComputeRunningProcesses, gpu)
        return None if running is None else tuple(map(self._process, running))

    def _process(self, one: Any) -> Process:
        name = self._or("unknown", self._nvml.nvmlSystemGetProcessName, one.pid)
        held = one.usedGpuMemory
        return Process(one.pid, name[:100], None if held is None else held / GIB)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    main(int(sys.argv[2]))
