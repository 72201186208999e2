"""A stand-in for a trainer: it reads a config's steps and writes checkpoints.

KempnerForge's rules: it goes on from ``latest``, saves at the end, and says how many
steps it made. ``plan.json`` beside the config says what happens: one word per launch.
"""

import json
import os
import sys
import tomllib
from pathlib import Path


def main(config):
    plan = Path("launches.json")
    words = json.loads(plan.read_text())
    plan.write_text(json.dumps(words[1:]))
    word = words[0] if words else "good"
    values = tomllib.loads(Path(config).read_text())
    folder, end = Path(values["checkpoint"]["dir"]), values["train"]["max_steps"]
    latest = folder / "latest"
    step = int(os.readlink(latest).split("_")[1]) if latest.is_symlink() else 0
    with open("launched.jsonl", "a") as file:
        line = [values["train"]["mixed_precision"], step, sys.argv[1:-1]]
        file.write(json.dumps(line) + "\n")
    if word == "fail":
        sys.exit(3)
    if word == "stopped":  # as after SIGTERM: saved, and exit code 0
        end = (step + end) // 2
    if word != "nan":  # not saved, though the last step was reached
        folder.mkdir(parents=True, exist_ok=True)
        latest.unlink(missing_ok=True)
        latest.symlink_to(f"step_{end}")
    print(f"[rank 0] INFO     Training complete: {end} steps, 7 tokens")


if __name__ == "__main__":
    main(sys.argv[-1])
