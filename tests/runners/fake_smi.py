"""A program that answers as nvidia-smi's documentation says, put on PATH as a child.

It is no driver: the format is that of ``nvidia-smi --help-query-gpu`` and of outputs
that users have published; no figure in it was measured.
"""

import os
import stat
import sys

from tests.runners.fake_nvml import hide

SCRIPT = """\
#!{python}
import sys, time
VALUES = {values!r}
KNOWN = {known!r}
if "-L" in sys.argv:
    print({listing!r})
    sys.exit()
if {wanted!r} and {wanted!r} != sys.argv[sys.argv.index("-i") + 1]:
    print("No devices were found")
    sys.exit(6)
arguments = [a for a in sys.argv[1:] if a.startswith("--query-")]
query, _, fields = arguments[0].partition("=")
fields = fields.split(",")
for field in fields:
    if field not in KNOWN:
        print(f'Field "{{field}}" is not a valid field to query.')
        sys.exit(2)
unit = {{"memory.used": " [MiB]", "used_gpu_memory": " [MiB]", "power.draw": " [W]",
        "clocks.current.sm": " [MHz]", "utilization.gpu": " [%]"}}
print(", ".join(field + unit.get(field, "") for field in fields))
def moment():
    now = time.time()
    text = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now))
    return text + ".%03d" % (now % 1 * 1000)
def rows():
    if query == "--query-compute-apps":
        return {apps!r}
    return [[moment() if f == "timestamp" else VALUES[f] for f in fields]]
while True:
    for row in rows():
        print(", ".join(row), flush=True)
    if "-lms" not in sys.argv:
        break
    time.sleep(int(sys.argv[sys.argv.index("-lms") + 1]) / 1000)
"""
VALUES = {
    "name": "NVIDIA H100 80GB HBM3",
    "driver_version": "580.82.07",
    "compute_cap": "9.0",
    "memory.total": "81559",
    "memory.used": "520",
    "clocks.current.sm": "1755",
    "power.draw": "652.31",
    "temperature.gpu": "61",
    "utilization.gpu": "0",
    "clocks_event_reasons.active": "0x0000000000000004",
    "clocks_throttle_reasons.active": "0x0000000000000004",
}
LISTING = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11aa)"
APPS = ("pid", "process_name", "used_gpu_memory")


def install(
    folder, monkeypatch, apps=(), unknown=(), listing=LISTING, wanted="", **changed
):
    """Put the program first on PATH, and hide NVML, which would be asked before.

    ``unknown`` are fields that it does not have.
    ``listing`` is what -L prints; ``wanted`` the only GPU that it knows, if not any.
    """
    hide(folder, monkeypatch)
    changed = {name.replace("__", "."): value for name, value in changed.items()}
    known = [n for n in (*VALUES, *APPS, "timestamp") if n not in unknown]
    text = SCRIPT.format(
        python=sys.executable,
        values=VALUES | changed,
        known=known,
        apps=[list(app) for app in apps],
        listing=listing,
        wanted=wanted,
    )
    path = folder / "nvidia-smi"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def script(folder, monkeypatch, text):
    """Put a shell script in its place."""
    hide(folder, monkeypatch)
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
