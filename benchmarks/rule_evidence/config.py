"""Configs small enough to run in seconds, on data made on the spot."""

from __future__ import annotations

import json
import re
import tomllib
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fp8tune.job import Unknown
from fp8tune.trainers.kempnerforge.data import tokenizer_ids

SMALL: dict[str, dict[str, Any]] = {
    "model": {
        "dim": 64,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 4,
        "vocab_size": 256,
    },
    "train": {"batch_size": 2, "seq_len": 32, "max_steps": 2, "compile_model": False},
    "scheduler": {"warmup_steps": 0},
    "data": {"num_workers": 0, "hf_image_size": 32},
    "vlm": {"max_text_len": 32},
    "metrics": {"log_interval": 1},
}
"""Values for the keys that an experiment leaves open."""

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog")


class NoData(Exception):
    """The data that a config needs cannot be made here; ``args[0]`` says why."""


def shrink(text: str, device: str) -> str:
    """The config with small values for the keys that it does not write.

    [vlm] is never added, and n_kv_heads only beside the small n_heads, since leaving
    it out says something. On the CPU the process groups are gloo's.
    """
    values = tomllib.loads(text)
    left_out = {"n_kv_heads"} if "n_heads" in values.get("model", {}) else set()
    wanted = {**SMALL, "distributed": {"backend": "gloo"} if device == "cpu" else {}}
    for section, keys in wanted.items():
        written = values.get(section)
        if section == "vlm" and written is None:
            continue
        lines = [
            f"{key} = {json.dumps(value)}"
            for key, value in keys.items()
            if key not in (written or {}) and key not in left_out
        ]
        text = _add(text, section, lines)
    return text


def _add(text: str, section: str, lines: list[str]) -> str:
    block = "\n".join([f"[{section}]", *lines])
    header = re.compile(rf"^\[{section}\][ \t]*$", re.MULTILINE)
    if header.search(text):
        return header.sub(lambda _match: block, text, count=1)
    return f"{text.rstrip()}\n{block}\n" if lines else text


def with_data(text: str, folder: Path) -> str:
    """The config with data of our own in place of the data that it names.

    Paths below /data, tokenizers and hub data sets, for training and evaluation. The
    end of a document has the largest id that the tokenizer has, where that is known.
    Raises ``NoData`` where a package that reads such data is missing.
    """
    values = tomllib.loads(text)
    hub = _images if "vlm" in values else _texts
    end = _last_id(values.get("data", {}).get("tokenizer_path", ""))
    for keys, value, package, name, make in (
        ("dataset_path|path", "/data/", "numpy", "tokens", _tokens),
        ("tokenizer_path", "", "transformers", "tokenizer", partial(_tokenizer, end)),
        ("hf_dataset_name|hf_name", "", "datasets", "hub", hub),
    ):
        line = re.compile(rf'^({keys}) *= *"{value}.+?(\.npy)?"$', re.MULTILINE)
        if not line.search(text):
            continue
        if find_spec(package) is None:
            raise NoData(f"needs the package {package}")
        place = folder / name
        if not place.exists():
            make(place)
        text = line.sub(partial(_at, place), text)
    return text


def _at(place: Path, line: re.Match[str]) -> str:
    """The line with the data of our own: a file of it where it names a file."""
    path = place / "tokens.npy" if line[2] else place
    return f"{line[1]} = {json.dumps(str(path))}"


def _last_id(tokenizer: str) -> int:
    """The largest id of a tokenizer that is known, else a small one."""
    with suppress(Unknown):
        return tokenizer_ids(tokenizer) - 1
    return 1


def _tokens(place: Path) -> None:
    numpy: Any = import_module("numpy")
    place.mkdir(parents=True)
    numpy.save(place / "tokens.npy", (numpy.arange(1 << 16) % 200).astype("uint16"))
    (place / "text.jsonl").write_text('{"text": "no tokens"}\n')


def _tokenizer(end: int, place: Path) -> None:
    """A tokenizer of whole words, as the files that transformers reads.

    ``end`` is the id of the end of a document.
    """
    place.mkdir(parents=True)
    special = [
        {"id": i, "content": word, "special": True, "single_word": False}
        | dict.fromkeys(("lstrip", "rstrip", "normalized"), False)
        for word, i in (("<unk>", 0), ("<eos>", end))
    ]
    numbers = {word: i for i, word in enumerate(WORDS, 2)} | {"<unk>": 0, "<eos>": end}
    model = {"type": "WordLevel", "vocab": numbers, "unk_token": "<unk>"}
    split = {"type": "Whitespace"}
    parts = {"added_tokens": special, "pre_tokenizer": split, "model": model}
    (place / "tokenizer.json").write_text(json.dumps({"version": "1.0", **parts}))
    names = {"unk_token": "<unk>", "eos_token": "<eos>"}
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (place / "tokenizer_config.json").write_text(json.dumps(kind))


def _texts(place: Path) -> None:
    place.mkdir(parents=True)
    line = json.dumps({"text": " ".join(WORDS * 8)})
    for split in ("train", "validation"):
        (place / f"{split}.jsonl").write_text(f"{line}\n" * 64)


def _images(place: Path) -> None:
    datasets: Any = import_module("datasets")
    datasets.disable_progress_bars()
    image = import_module("PIL.Image").new("RGB", (32, 32), "grey")
    rows = {"image": [image] * 32, "text": [" ".join(WORDS)] * 32}
    datasets.Dataset.from_dict(rows).save_to_disk(str(place))
