"""Where a KempnerForge run reads its text, and what its paths and tokenizer mean.

Every public function is a name of the job, as in ``job.py``.

Source: KempnerForge at commit 5666d0d, files named in each docstring.
"""

from __future__ import annotations

import posixpath
from typing import Any

from fp8tune.job import Unknown, Words, known

_GPT2, _LLAMA2, _LLAMA3 = (50257, 50304), (32000, 32000), (128002, 128256)
_GEMMA, _QWEN = (256000, 256000), (151644, 151936)
_OLMO2, _SMOLLM = (100258, 100352), (49152, 49152)

TOKENIZERS = {
    **dict.fromkeys(("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"), _GPT2),
    "openai-community/gpt2": _GPT2,
    "distilgpt2": _GPT2,
    "meta-llama/Llama-2-": _LLAMA2,
    "TinyLlama/TinyLlama-1.1B": _LLAMA2,
    "mistralai/Mistral-7B-v0.1": _LLAMA2,
    "meta-llama/Meta-Llama-3": _LLAMA3,
    "meta-llama/Llama-3": _LLAMA3,
    "google/gemma-2": _GEMMA,
    "google/gemma-7b": _GEMMA,
    "Qwen/Qwen2": _QWEN,
    "Qwen/Qwen3-": _QWEN,
    "allenai/OLMo-2-": _OLMO2,
    "allenai/dolma2-tokenizer": _OLMO2,
    "HuggingFaceTB/SmolLM-": _SMOLLM,
    "HuggingFaceTB/SmolLM2-": _SMOLLM,
    "HuggingFaceTB/cosmo2-tokenizer": _SMOLLM,
}
"""Tokenizers by the beginning of their hub name, or by all of it where that has no
``/``: the ids that text takes, and the usual rows.

The ids are one more than the largest of a token of text or of the end of a document;
unused special tokens above are not counted. The rows are those of the embedding of
models with this tokenizer, a multiple of 128. Sources: the files on the hub,
https://github.com/meta-llama/llama3/blob/main/llama/tokenizer.py,
https://github.com/QwenLM/Qwen/blob/main/tokenization_note.md,
https://github.com/allenai/OLMo/blob/main/configs/official-1124/OLMo2-13B-stage1.yaml,
https://github.com/huggingface/smollm (pre-training/smollm1/config_smollm1_135M.yaml).
"""

FILES_OF_WEIGHTS = (".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".gguf")
"""Endings of files of weights, which the trainer does not load."""

NOT_TOKENS = (
    ".parquet",
    ".arrow",
    ".jsonl",
    ".json",
    ".txt",
    ".csv",
    ".gz",
    ".zst",
    ".tar",
    ".pt",
    ".safetensors",
    ".npz",
)
"""Endings of files that ``numpy.load`` opens as no flat array of tokens."""


ENDINGS = (*NOT_TOKENS, ".npy", ".bin")
"""Endings of files of data; no folder that the trainer reads is called so."""


def tokenizer_ids(data_tokenizer_path: Any) -> int:
    """Ids that the tokenizer uses for text, if fp8tune knows the tokenizer.

    An embedding needs as many rows (``TOKENIZERS`` in trainers/kempnerforge/data.py).
    """
    return _tokenizer(data_tokenizer_path)[0]


def tokenizer_rows(data_tokenizer_path: Any) -> int:
    """Usual vocabulary size of models with this tokenizer, a multiple of 128."""
    return _tokenizer(data_tokenizer_path)[1]


def tokenizes(
    vlm: bool,
    eval_enabled: bool,
    mixture_on_hub: bool,
    data_datasets: Any,
    data_dataset_path: Any,
    data_hf_dataset_name: Any,
    eval_dataset_path: Any,
    eval_hf_dataset_name: Any,
) -> bool:
    """Whether the run itself tokenizes text, instead of reading only token ids.

    Source: scripts/train.py.
    """
    hub = not data_dataset_path and data_hf_dataset_name
    trains = mixture_on_hub if data_datasets else bool(hub)
    evaluates = eval_enabled and not eval_dataset_path and bool(eval_hf_dataset_name)
    return vlm or trains or evaluates


def pattern_ending(data_file_pattern: Any) -> str:
    """Ending of the pattern for token files, such as ``.npy``; empty for ``*``."""
    return Words(posixpath.splitext(_text(data_file_pattern))[1])


def foreign_pattern(pattern_ending: str) -> bool:
    """Whether the pattern matches files without a flat array of tokens.

    The loader reads ``.bin`` as raw integers and opens all others with ``numpy.load``
    (data/dataset.py, MemoryMappedDataset).
    """
    return pattern_ending.lower() in NOT_TOKENS


def reads_tokens(vlm: bool, data_datasets: Any, data_dataset_path: Any) -> bool:
    """Whether the run trains on files of token ids (scripts/train.py)."""
    if vlm:
        return False
    if data_datasets:
        return any(s.get("path") for s in data_datasets if isinstance(s, dict))
    return bool(data_dataset_path)


def literal_data_path(
    vlm: bool,
    video: bool,
    data_datasets: Any,
    data_dataset_path: Any,
    video_data_root: Any = "",
) -> str:
    """The first training data path that needs expansion but gets none; else empty.

    It has ``~``, a variable or a scheme such as ``s3://``. The trainer passes it to
    ``pathlib.Path`` unchanged (data/dataset.py, data/video_dataset.py).
    """
    if vlm:
        paths = [video_data_root] if video else []
    elif data_datasets:
        paths = [s.get("path", "") for s in data_datasets if isinstance(s, dict)]
    else:
        paths = [data_dataset_path]
    return next(filter(_literal, paths), "")


def data_file(
    vlm: bool,
    data_datasets: Any,
    data_dataset_path: Any,
    eval_enabled: bool,
    eval_dataset_path: Any,
) -> str:
    """The first path to text data that names a file; else empty.

    The trainer looks for files in a folder of that name (data/dataset.py).
    """
    if vlm:
        return Words("")
    sources = data_datasets or [{"path": data_dataset_path}]
    paths = [s.get("path") for s in sources if isinstance(s, dict)]
    paths += [eval_dataset_path] * eval_enabled
    texts = (path for path in paths if isinstance(path, str) and not _literal(path))
    return next((path for path in texts if path.lower().endswith(ENDINGS)), "")


def literal_eval_path(eval_dataset_path: Any) -> bool:
    """Whether the evaluation data path needs expansion but gets none."""
    return _literal(eval_dataset_path)


def literal_checkpoint_folder(checkpoint_dir: Any) -> bool:
    """Whether the checkpoint folder needs expansion but gets none.

    Source: checkpoint/manager.py.
    """
    return _literal(checkpoint_dir)


def literal_load_path(checkpoint_load_path: Any) -> bool:
    """Whether the path of the checkpoint to load needs expansion but gets none.

    Source: checkpoint/manager.py, _resolve_load_path.
    """
    return _literal(checkpoint_load_path)


def load_path_ending(checkpoint_load_path: Any) -> str:
    """Ending of a load path that names a file of weights; else empty.

    The trainer loads only folders that it saved (checkpoint/manager.py).
    """
    ending = posixpath.splitext(_text(checkpoint_load_path))[1].lower()
    return Words(ending if ending in FILES_OF_WEIGHTS else "")


def eval_on_training_data(
    data_datasets: Any,
    data_dataset_path: Any,
    data_file_pattern: Any,
    data_hf_dataset_name: Any,
    data_hf_dataset_config: Any,
    data_hf_dataset_split: Any,
    eval_dataset_path: Any,
    eval_file_pattern: Any,
    eval_hf_dataset_name: Any,
    eval_hf_dataset_config: Any,
    eval_hf_dataset_split: Any,
) -> bool:
    """Whether the evaluation reads files or a split of the training data.

    A path takes precedence over a hub name (scripts/train.py).
    """
    sources = data_datasets or [
        {
            "path": data_dataset_path,
            "hf_name": data_hf_dataset_name,
            "hf_config": data_hf_dataset_config,
        }
    ]
    training = {
        _source(
            source.get("path"),
            data_file_pattern,
            source.get("hf_name"),
            source.get("hf_config"),
            data_hf_dataset_split,
        )
        for source in sources
        if isinstance(source, dict)
    }
    evaluation = _source(
        eval_dataset_path,
        eval_file_pattern,
        eval_hf_dataset_name,
        eval_hf_dataset_config,
        eval_hf_dataset_split,
    )
    return bool(evaluation) and evaluation in training


def _source(
    path: Any, pattern: Any, name: Any, config: Any, split: Any
) -> tuple[str, ...]:
    """What identifies one source of data; empty if there is none."""
    if path:
        return (posixpath.normpath(str(path)), str(pattern))
    return (str(name), str(config or ""), str(split)) if name else ()


def _tokenizer(path: Any) -> tuple[int, int]:
    name = _text(path)
    found = (
        sizes
        for start, sizes in TOKENIZERS.items()
        if name == start or ("/" in start and name.startswith(start))
    )
    return known("tokenizer_ids", next(found, None))


def _text(value: Any) -> str:
    """The value of a key for text, which may be anything."""
    if isinstance(value, str):
        return value
    raise Unknown("text")


def _literal(path: Any) -> bool:
    """Whether a path has a part that a shell or a library would have to expand."""
    if not isinstance(path, str):
        return False
    scheme, separator, _ = path.partition("://")
    variable = path.partition("$")[2].lstrip("{")[:1]
    home = path.startswith("~")
    return home or bool(separator and scheme.isalnum()) or variable.isidentifier()
