"""Run the phases that ``fp8tune phases`` writes, with the real trainers on the CPU.

``python -m benchmarks.verify.phases --kempnerforge CHECKOUT --torchtitan FOLDER`` needs a
Python with both trainers' requirements; FOLDER has the unpacked wheels, by version.

Each case trains a tiny model: the unbroken run in bf16, then the written script. Every
optimizer step leaves checksums (``on_cpu.py``). With the middle phase in bf16 too, all
of them must equal those of the unbroken run, bit for bit; also after an interruption.
With FP8 between, learning rates and tokens must, and each phase must begin with the
weights and the optimizer's state with which the one before it ended.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import table
from benchmarks.paths import ROOT
from benchmarks.search.recording import record

Steps = list[dict[str, Any]]
TOTAL, FIRST, LAST = 8, 2, 3
"""Steps of the whole run, of the bf16 warm-up, and of the bf16 cool-down."""
EXACT = ("lr", "tokens", "gradients", "before", "after")

KEMPNERFORGE = """\
[model]
dim = 64
n_layers = 2
n_heads = 4
n_kv_heads = 4
vocab_size = 256
[train]
batch_size = 2
seq_len = 32
max_steps = {total}
grad_accum_steps = 2
compile_model = false
mixed_precision = "{precision}"
[scheduler]
{schedule}
[data]
dataset_path = "{folder}/tokens"
num_workers = 0
[distributed]
backend = "gloo"
[checkpoint]
dir = "{checkpoints}"
interval = 3
[metrics]
log_interval = 1
"""
TORCHTITAN = """\
[job]
dump_folder = "{checkpoints}"
[model]
name = "llama3"
flavor = "debugmodel"
{tokenizer}
converters = {converters}
[training]
dataset = "c4_test"
dataset_path = "{folder}/texts"
local_batch_size = 2
seq_len = 64
steps = {total}
[lr_scheduler]
{schedule}
[activation_checkpoint]
mode = "none"
[metrics]
log_freq = 1
[checkpoint]
{enable} = true
interval = 3
[{seed}]
seed = 1
[{float8}]
enable_fsdp_float8_all_gather = {gathers}
"""


class Case(NamedTuple):
    """A trainer with a config: its folder, the text, the words in it by precision.

    ``stop`` is the signal that interrupts it.
    """

    name: str
    trainer: str
    place: Path
    text: str
    ranks: int
    words: Mapping[str, Mapping[str, str]]
    stop: str = "KILL"


def kempnerforge(checkout: Path) -> Iterator[Case]:
    """Yield the cases of KempnerForge."""
    words = {p: {"precision": p} for p in ("bf16", "fp8")}
    schedules = {
        "cosine": 'name = "cosine"\nwarmup_steps = 3',
        "wsd": 'name = "wsd"\nwarmup_steps = 1\nstable_steps = 3',
    }
    for ranks, name, stop in ((1, "cosine", "TERM"), (2, "wsd", "KILL")):
        text = KEMPNERFORGE.replace("{schedule}", schedules[name])
        where = f"KempnerForge, {name}, {ranks} rank{'s' * (ranks > 1)}"
        yield Case(where, "kempnerforge", checkout, text, ranks, words, stop)


def torchtitan(folder: Path) -> Iterator[Case]:
    """Yield the cases of each release of torchtitan."""
    for place in sorted(folder.glob("0.*")):
        old = place.name == "0.1.0"
        float8 = "float8" if old else "quantize.linear.float8"
        names = {
            "{enable}": "enable_checkpoint" if old else "enable",
            "{tokenizer}": 'tokenizer_path = "{folder}/bpe"'
            if old
            else 'hf_assets_path = "{folder}/words"',
            "{seed}": "training.seed_" if old else "debug",
            "{float8}": float8,
        }
        words = {
            "bf16": {"converters": "[]"},
            "fp8": {"converters": json.dumps([float8])},
        }
        total = place.name == "0.2.2"
        schedule = "decay_ratio = 0.25" if not total else 'decay_type = "cosine"'
        for ranks, gathers in ((1, "false"), (2, "true")):
            text = TORCHTITAN.replace("{schedule}", f"warmup_steps = 2\n{schedule}")
            for old_name, new in {**names, "{gathers}": gathers}.items():
                text = text.replace(old_name, new)
            if old:
                text = re.sub(r"\[training.seed_\]\nseed = 1\n", "", text)
                text = text.replace("seq_len = 64", "seq_len = 64\nseed = 1")
            where = f"torchtitan {place.name}, {ranks} rank{'s' * (ranks > 1)}"
            where += ", FP8 all-gather" * (gathers == "true")
            yield Case(where, f"torchtitan=={place.name}", place, text, ranks, words)


def main() -> int:
    """Run the cases and print what was equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kempnerforge", type=Path)
    parser.add_argument("--torchtitan", type=Path)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--record", action="store_true", help="write the results")
    options = parser.parse_args()
    cases: list[Case] = []
    if options.kempnerforge:
        cases += kempnerforge(options.kempnerforge.resolve())
    if options.torchtitan:
        cases += torchtitan(options.torchtitan.resolve())
    figures = []
    for case in cases:
        if options.only in case.name:
            with tempfile.TemporaryDirectory() as folder:
                data(Path(folder))
                figures += [{"case": case.name, **f} for f in measured(case, folder)]
                print(json.dumps(figures[-3:], indent=1), flush=True)
    rows = [tuple(str(v) for v in figure.values()) for figure in figures]
    page = table(
        rows, ("case", "phases", "steps", "equal to the unbroken run", "joins")
    )
    print(page)
    if options.record:
        where = {n: version(n) for n in ("torch", "torchao")}
        where |= {"python": platform.python_version(), "device": "cpu"}
        text = (
            "# Phases with the real trainers\n\nWritten by `python -m "
            f"benchmarks.verify.phases`; see its docstring.\n\n{page}"
        )
        record("verify_phases", {"figures": figures}, text, where)
    return 0


def measured(case: Case, folder: str) -> Iterator[dict[str, Any]]:
    """Yield what of the phases equals the unbroken run, for three kinds of them."""
    place = Path(folder)
    whole = place / "whole.toml"
    whole.write_text(filled(case, place, "bf16", "whole"))
    unbroken = run(case, place, launched(case, [*program(case, str(whole))]), "whole")
    for name, middle, stop in (
        ("bf16, bf16, bf16", "bf16", ""),
        ("bf16, bf16, bf16, interrupted", "bf16", f"{case.stop}:4"),
        ("bf16, fp8, bf16", "fp8", ""),
    ):
        kind = re.sub(r"\W+", "-", name)
        config = place / f"{kind}.toml"
        config.write_text(filled(case, place, "fp8", kind))
        script = phases(case, config)
        if middle == "bf16":
            path = place / f"{kind}.2-fp8.toml"
            path.write_text(in_bf16(case, path.read_text()))
        command = ["bash", str(script)]
        if stop:
            early = run(case, place, command, f"{kind}-0", stop=stop, fails=True)
        steps = run(case, place, command, kind)
        again = run(case, place, command, f"{kind}-again")
        assert not again, "a run that ended trains again"
        if stop:
            done = TOTAL - len(steps)
            steps = early[:done] + steps
        yield {
            "phases": name,
            "steps": len(steps),
            "equal": [n for n in EXACT if column(steps, n) == column(unbroken, n)],
            "joins": [
                steps[at]["before"] == steps[at - 1]["after"]
                for at in (FIRST, TOTAL - LAST)
            ],
        }


def column(steps: Steps, name: str) -> list[Any]:
    """One quantity of all steps."""
    return [step[name] for step in steps]


def filled(case: Case, place: Path, precision: str, checkpoints: str) -> str:
    """The config's text, with checkpoints in a folder of their own."""
    text = case.text
    words = {
        "total": str(TOTAL),
        "folder": str(place),
        "checkpoints": f"{place}/{checkpoints}-checkpoints",
        **case.words[precision],
    }
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def in_bf16(case: Case, text: str) -> str:
    """The config of the FP8 phase, in bf16."""
    for name, value in case.words["fp8"].items():
        quote = '"' * (name == "precision")
        text = text.replace(
            f"{quote}{value}{quote}", quote + case.words["bf16"][name] + quote
        )
    return text


def program(case: Case, config: str) -> list[str]:
    """The trainer's program, as it stands behind a launcher."""
    if case.trainer == "kempnerforge":
        return ["scripts/train.py", config]
    return ["-m", "torchtitan.train", "--job.config_file", config]


def launched(case: Case, words: list[str]) -> list[str]:
    """The program behind the launcher that stands for ``torchrun``."""
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    start = [sys.executable]
    if case.ranks > 1:
        start += [*ranks, str(case.ranks)]
    here = str(Path(__file__).with_name("on_cpu.py"))
    return [*start, here, *words]


def phases(case: Case, config: Path) -> Path:
    """Write the phases and return the path of the script."""
    command = [sys.executable, "-m", "fp8tune", "phases", str(config)]
    command += ["--bf16-warmup", str(FIRST), "--bf16-cooldown", str(LAST)]
    command += ["--trainer", case.trainer, "--launcher", shlex.join(launched(case, []))]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return config.with_suffix(".phases.sh")


def run(
    case: Case,
    place: Path,
    command: list[str],
    name: str,
    *,
    stop: str = "",
    fails: bool = False,
) -> Steps:
    """Run a command in the trainer's folder and return the steps of rank 0."""
    lines = place / f"{name}.jsonl"
    cwd = case.place if case.trainer == "kempnerforge" else place
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(case.place)]),
        "OMP_NUM_THREADS": "1",
        "MASTER_PORT": str(random.randint(20000, 40000)),  # noqa: S311
        "HF_HOME": str(place / "hub"),
        "FP8TUNE_RECORD": str(lines),
        "FP8TUNE_SIGNAL": stop,
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if bool(done.returncode) != fails:
        raise RuntimeError(
            f"{command}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        )
    if not lines.exists():
        return []
    return [json.loads(line) for line in lines.read_text().splitlines()]


def data(place: Path) -> None:
    """Write tokens, texts and tokenizers."""
    import numpy as np

    chance = random.Random(1)  # noqa: S311
    (place / "tokens").mkdir()
    tokens = [chance.randrange(256) for _ in range(1 << 14)]
    np.save(place / "tokens" / "tokens.npy", np.array(tokens, dtype="uint16"))
    (place / "texts").mkdir()
    words = [f"w{number}" for number in range(500)]
    rows = (
        " ".join(chance.choices(words, k=chance.randint(20, 90))) for _ in range(400)
    )
    lines = (json.dumps({"text": row}) + "\n" for row in rows)
    (place / "texts" / "train.jsonl").write_text("".join(lines))
    (place / "words").mkdir()
    vocabulary = {w: i for i, w in enumerate(["<unk>", "<bos>", "<eos>", *words])}
    special = [
        {"id": i, "content": w, "special": True, "single_word": False}
        | dict.fromkeys(("lstrip", "rstrip", "normalized"), False)
        for i, w in ((1, "<bos>"), (2, "<eos>"))
    ]
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    parts = {"added_tokens": special, "pre_tokenizer": {"type": "Whitespace"}}
    whole = {"version": "1.0", **parts, "model": model}
    (place / "words" / "tokenizer.json").write_text(json.dumps(whole))
    names = {"bos_token": "<bos>", "eos_token": "<eos>"}
    (place / "words" / "tokenizer_config.json").write_text(json.dumps(names))
    ranks = (f"{base64.b64encode(bytes([n])).decode()} {n}\n" for n in range(256))
    (place / "bpe").write_text("".join(ranks))


if __name__ == "__main__":
    sys.exit(main())
