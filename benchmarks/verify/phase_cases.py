"""Tiny configs of the real trainers for runs in phases, and the data that they read."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from fp8tune.words import counted

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
num_workers = 0
{data}
[distributed]
backend = "gloo"
[checkpoint]
dir = "{checkpoints}"
interval = 3
[metrics]
log_interval = 1
"""
MIXTURE = """\
phases = [{ start_step = 3, dataset_weights = { a = 3.0 }, lr_scale = 0.5 }]
[[data.datasets]]
path = "{folder}/tokens"
name = "a"
[[data.datasets]]
path = "{folder}/more"
name = "b"
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

    ``stop`` is the signal that interrupts it; ``refused``: also run what is refused.
    """

    name: str
    trainer: str
    place: Path
    text: str
    ranks: int
    words: Mapping[str, Mapping[str, str]]
    stop: str = "KILL"
    refused: bool = False


def kempnerforge(checkout: Path) -> Iterator[Case]:
    """Yield the cases of KempnerForge."""
    words = {p: {"precision": p} for p in ("bf16", "fp8")}
    schedules = {
        "cosine": 'name = "cosine"\nwarmup_steps = 3',
        "linear": 'name = "linear"\nwarmup_steps = 0',
        "wsd": 'name = "wsd"\nwarmup_steps = 1\nstable_steps = 3',
    }
    one = 'dataset_path = "{folder}/tokens"'
    for ranks, name, stop, source in (
        (1, "cosine", "TERM", one),
        (1, "linear", "KILL", MIXTURE),
        (2, "wsd", "KILL", one),
    ):
        text = KEMPNERFORGE.replace("{schedule}", schedules[name])
        text = text.replace("{data}", source)
        where = f"KempnerForge, {name}, {counted(ranks, 'rank')}"
        where += ", mixture with a data phase" * (source == MIXTURE)
        yield Case(
            where, "kempnerforge", checkout, text, ranks, words, stop, source == one
        )


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
            "{seed}": "debug",
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
            if place.name < "0.2.1":
                text = text.replace("[debug]\nseed = 1\n", "")
                text = text.replace("seq_len = 64", "seq_len = 64\nseed = 1")
            where = f"torchtitan {place.name}, {counted(ranks, 'rank')}"
            where += ", FP8 all-gather" * (gathers == "true")
            ask = total and ranks > 1
            name = f"torchtitan=={place.name}"
            yield Case(where, name, place, text, ranks, words, refused=ask)


def data(place: Path) -> None:
    """Write tokens, texts and tokenizers."""
    import numpy as np

    chance = random.Random(1)  # noqa: S311
    (place / "tokens").mkdir()
    tokens = [chance.randrange(256) for _ in range(1 << 14)]
    np.save(place / "tokens" / "tokens.npy", np.array(tokens, dtype="uint16"))
    (place / "more").mkdir()
    np.save(place / "more" / "tokens.npy", np.array(tokens[::-1], dtype="uint16"))
    (place / "texts").mkdir()
    words = [f"w{number}" for number in range(500)]
    rows = [chance.choices(words, k=chance.randint(20, 90)) for _ in range(400)]
    lines = (json.dumps({"text": " ".join(row)}) + "\n" for row in rows)
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
