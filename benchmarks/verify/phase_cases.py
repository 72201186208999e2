"""Tiny configs of the real trainers, and the data that they read."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

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
