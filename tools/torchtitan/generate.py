"""Configs of torchtitan as people write them, right and wrong, drawn at random.

A config starts from a model and a mesh that fit together. Then a few things change:
degrees, batches, precision, AC, compile, a key's value or name. The mistakes are those
of people: keys of another release, quoted numbers, misspelt names, degrees that do not
multiply to the number of GPUs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.verdicts import migrated
from tools.schema_file import toml

Config = dict[str, dict[str, Any]]
Change = Callable[[Config, random.Random, str], None]

MODELS = {
    "0.1.0": {"llama3": ("debugmodel", "8B"), "llama4": ("debugmodel",)},
    "0.2.0": {
        "llama3": ("debugmodel", "debugmodel_flex_attn", "8B", "70B"),
        "llama4": ("debugmodel", "debugmodel_irope"),
        "qwen3": ("debugmodel", "0.6B", "1.7B"),
        "deepseek_v3": ("debugmodel", "debugmodel_flex_attn", "16B"),
    },
}
"""Models and flavors that are drawn."""
NEWER = {
    "llama3": ("debugmodel", "debugmodel_flex_attn", "debugmodel_varlen_attn", "8B"),
    "gpt_oss": ("debugmodel", "20b"),
}
MODELS["0.2.1"] = MODELS["0.2.0"] | NEWER
MODELS["0.2.2"] = MODELS["0.2.0"] | NEWER

SIZES = (1, 2, 4, 8, 8, 8, 16, 64)
"""Numbers of GPUs."""

ODD: tuple[Any, ...] = (
    0,
    1,
    -1,
    2,
    3,
    7,
    0.5,
    1e30,
    "",
    "2",
    "x",
    "true",
    True,
    [],
    [1],
)
ODD += (["a"], {}, {"a": 1}, ["model"], "bfloat16", "full", 10**6)
"""Values that are tried for any key."""


def configs(version: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield configs with the number of GPUs that each runs on."""
    draw = random.Random(f"{version} {seed}")  # noqa: S311
    for number in range(count):
        size = draw.choice(SIZES)
        config = _start(draw, version, size)
        for change in draw.choices(CHANGES, k=draw.choice((0, 1, 1, 2, 3))):
            change(config, draw, version)
        yield {
            "version": version,
            "id": f"{version}-{seed}-{number}",
            "world_size": size,
            "toml": text(config),
        }


def text(config: Config) -> str:
    """Return a config as TOML: what is no table first."""
    lines = []
    for name, table in config.items():
        if isinstance(table, dict):
            lines.append(f"[{name}]")
            lines += [f"{key} = {toml(value)}" for key, value in table.items()]
        else:
            lines.insert(0, f"{name} = {toml(table)}")
    return "\n".join(lines) + "\n"


def _start(draw: random.Random, version: str, size: int) -> Config:
    name = draw.choice(list(MODELS[version]))
    model = {"name": name, "flavor": draw.choice(MODELS[version][name])}
    degrees = {}
    left = size
    for key in ("tensor", "context", "pipeline"):
        degree = draw.choice((1, 1, 1, 2, 4))
        if left % degree == 0 and degree > 1:
            degrees[f"{key}_parallel_degree"] = degree
            left //= degree
    if draw.random() < 0.3:
        replicas = draw.choice([d for d in (1, 2, 4, left) if left % d == 0])
        degrees["data_parallel_replicate_degree"] = replicas
        left //= replicas
    if draw.random() < 0.4:
        degrees["data_parallel_shard_degree"] = left
    training = {
        "local_batch_size": draw.choice((1, 2, 4, 8)),
        "seq_len": draw.choice((1024, 2048, 4096, 8192)),
    }
    config: Config = {"model": model, "training": training}
    if degrees:
        config["parallelism"] = degrees
    return config


def _table(config: Config, name: str) -> dict[str, Any]:
    table = config.setdefault(name, {})
    return table if isinstance(table, dict) else {}


def _degree(config: Config, draw: random.Random, version: str) -> None:
    names = ["tensor_parallel", "context_parallel", "pipeline_parallel"]
    names += ["data_parallel_replicate", "data_parallel_shard"]
    if version != "0.1.0":
        names += ["expert_parallel", "expert_parallel", "expert_tensor_parallel"]
    value = draw.choice((1, 2, 2, 3, 4, 8, 0, -1))
    _table(config, "parallelism")[f"{draw.choice(names)}_degree"] = value


def _batch(config: Config, draw: random.Random, _: str) -> None:
    table = _table(config, "training")
    key = draw.choice(("local_batch_size", "global_batch_size", "global_batch_size"))
    table[key] = draw.choice((-1, 0, 1, 3, 8, 16, 32, 64, 128, 512, "8"))


def _length(config: Config, draw: random.Random, _: str) -> None:
    lengths = (2049, 1000, 12, 100, 131072, 0, 6, "2048", 2048.0)
    _table(config, "training")["seq_len"] = draw.choice(lengths)


def _precision(config: Config, draw: random.Random, version: str) -> None:
    old = version == "0.1.0"
    names = ("float8", "quantize.linear.float8", "quantize.grouped_mm.float8")
    right = names[0] if old else names[1]
    table = _table(config, "model")
    choices: list[Any] = [[right], [right], [right], right, "float8", [], ["fp8"]]
    choices += [[name] for name in names]
    choices += [[right, names[2]], [right, right], [names[0], right]]
    choices += [] if old else [["quantize.linear.mx"]]
    table["converters"] = draw.choice(choices)
    float8 = _table(config, "float8" if old else "quantize.linear.float8")
    for key, values in (
        ("enable_fsdp_float8_all_gather", (True, False, "false")),
        ("precompute_float8_dynamic_scale_for_fsdp", (True, False)),
        ("recipe_name", ("tensorwise", "rowwise", "rowwise_with_gw_hp", "rowise")),
        ("filter_fqns", (["output"], [], ["auto_filter_small_kn"], "output", [1])),
        ("filter_fqns", (["output", "auto_filter_small_kn"], ["attention.wk"])),
        ("emulate", (True, False)),
        *((("force_recompute_fp8_weight_in_bwd", (True, False)),) * old),
    ):
        if draw.random() < 0.35:
            float8[key] = draw.choice(values)


def _recompute(config: Config, draw: random.Random, _: str) -> None:
    table = _table(config, "activation_checkpoint")
    modes = ("none", "full", "selective", "selective", "memory_budget", "op", True)
    table["mode"] = draw.choice(modes)
    if draw.random() < 0.7:
        options = ("op", "1", "2", "0", 2, "all", "", "op ", "-1", True)
        table["selective_ac_option"] = draw.choice(options)


def _compile(config: Config, draw: random.Random, version: str) -> None:
    if version == "0.1.0" and draw.random() < 0.8:
        _table(config, "training")["compile"] = draw.choice((True, False, "false"))
    else:
        table = _table(config, "compile")
        table["enable"] = draw.choice((True, True, False, "false", "true"))
        if draw.random() < 0.5:
            components: list[Any] = [["loss"], ["model", "loss"], ["model"], []]
            table["components"] = draw.choice([*components, "model", ["all"]])
    if draw.random() < 0.5:
        _table(config, "parallelism")["enable_async_tensor_parallel"] = True


def _model(config: Config, draw: random.Random, _: str) -> None:
    table = _table(config, "model")
    key = draw.choice(("name", "flavor"))
    names = ("llama3", "llama", "gpt_oss", "qwen3", "deepseek_v3", "Llama3", 3)
    flavors = ("8B", "8b", "debugmodel", "debug", "16B", "70B", "0.6B", 8)
    table[key] = draw.choice(names if key == "name" else flavors)


def _dialect(config: Config, draw: random.Random, _: str) -> None:
    """Write a key of another release, or one that is misspelt."""
    name, key, value = draw.choice(
        (
            ("training", "compile", True),
            ("training", "batch_size", 8),
            ("training", "data_parallel_degree", 8),
            ("training", "seed", 42),
            ("training", "deterministic", True),
            ("checkpoint", "enable_checkpoint", True),
            ("checkpoint", "enable", True),
            ("model", "tokenizer_path", "./tokenizer.model"),
            ("model", "hf_assets_path", "./assets"),
            ("model", "norm_type", "rmsnorm"),
            ("optimizer", "learning_rate", 3e-4),
            ("lr_scheduler", "lr_min", 0.1),
            ("lr_scheduler", "min_lr_factor", 0.1),
            ("lr_scheduler", "total_steps", 100),
            ("debug", "seed", 1),
            ("float8", "filter_fqns", ["output"]),
            ("quantize.linear.float8", "filter_fqns", ["output"]),
            ("quantize.linear.float8", "force_recompute_fp8_weight_in_bwd", True),
            ("quantize.dense.float8", "filter_fqns", ["output"]),
            ("parallelism", "dp_shard", 8),
            ("activation_checkpoint", "preserve_rng_state", True),
            ("experimental", "context_parallel_degree", 1),
            ("validation", "enable", True),
            ("validation", "steps", 0),
            ("trainig", "seq_len", 2048),
        )
    )
    _table(config, name)[key] = value


def _odd(config: Config, draw: random.Random, _: str) -> None:
    tables = [table for table in config.values() if isinstance(table, dict) and table]
    table = draw.choice(tables)
    table[draw.choice(list(table))] = draw.choice(ODD)


def _rest(config: Config, draw: random.Random, version: str) -> None:
    """Set keys that the other changes leave alone."""
    choices: list[tuple[str, str, tuple[Any, ...]]] = [
        (
            "training",
            "mixed_precision_param",
            ("float32", "bfloat16", "bf16", "float16"),
        ),
        ("training", "mixed_precision_reduce", ("float32", "bfloat16")),
        ("training", "enable_cpu_offload", (True, False)),
        ("parallelism", "fsdp_reshard_after_forward", ("always", "never", "sometimes")),
        ("parallelism", "disable_loss_parallel", (True,)),
        ("optimizer", "lr", (3e-4, "3e-4", 1)),
        ("optimizer", "name", ("AdamW", "Adam", "Muon")),
        ("metrics", "log_freq", (1, 0, "10")),
        ("lr_scheduler", "warmup_steps", (0, 10**6, "2")),
        ("training", "steps", (10, 0, "100", 1.5)),
        ("job", "dump_folder", ("./out", 3)),
    ]
    if version != "0.1.0":
        choices += [
            ("training", "dtype", ("bfloat16", "float32", "bf16", "float16")),
            ("parallelism", "expert_parallel_comm_backend", ("deepep", "standard")),
            ("parallelism", "context_parallel_load_balancer", ("", "headtail", "ptrr")),
            ("compile", "backend", ("inductor", "aot_eager")),
        ]
    name, key, values = draw.choice(choices)
    _table(config, name)[key] = draw.choice(values)


def _flat(config: dict[str, Any], draw: random.Random, _: str) -> None:
    """Let a table be something else."""
    if draw.random() < 0.3:
        other: list[Any] = ["x", ["a"]]
        config[draw.choice(list(config))] = draw.choice(other)


CHANGES: tuple[Change, ...] = (
    *(_degree, _degree, _degree, _batch, _batch, _length, _precision, _precision),
    *(_precision, _recompute, _recompute, _compile, _compile, _model, _dialect),
    *(_dialect, _odd, _rest, _rest, _flat),
)

FLOAT8 = (
    ("enable_fsdp_float8_all_gather", True),
    ("precompute_float8_dynamic_scale_for_fsdp", True),
    ("filter_fqns", ["output"]),
    ("emulate", False),
)
LINES: tuple[tuple[str, str, Any], ...] = (
    *(("float8", key, value) for key, value in FLOAT8),
    *(("quantize.linear.float8", key, value) for key, value in FLOAT8),
    ("float8", "force_recompute_fp8_weight_in_bwd", True),
    ("quantize.linear.mx", "filter_fqns", ["output"]),
    ("training", "compile", True),
    ("training", "compile", False),
    ("compile", "enable", True),
    ("compile", "components", ["model", "loss"]),
    ("compile", "components", ["loss"]),
    ("training", "seed", 42),
    ("training", "seed", 42),
    ("debug", "seed", 42),
    ("debug", "seed", 7),
    ("training", "deterministic", True),
    ("debug", "deterministic", True),
    ("debug", "deterministic_warn_only", False),
    ("training", "debug_moe_force_load_balance", True),
    ("debug", "moe_force_load_balance", True),
    ("training", "dtype", "float32"),
    ("job", "print_args", True),
    ("job", "print_config", True),
    ("checkpoint", "enable_checkpoint", True),
    ("checkpoint", "enable", True),
    ("checkpoint", "last_save_model_weights_only", True),
    ("checkpoint", "last_save_model_only", True),
    ("checkpoint", "last_save_in_hf", False),
    ("lr_scheduler", "lr_min", 0.1),
    ("lr_scheduler", "min_lr_factor", 0.1),
    ("lr_scheduler", "total_steps", 1000),
    ("memory_estimation", "enabled", False),
    ("memory_estimation", "enable", False),
    ("activation_checkpoint", "early_stop", False),
    ("activation_checkpoint", "early_stop", True),
    ("activation_checkpoint", "preserve_rng_state", True),
    ("activation_checkpoint", "memory_budget", 0.5),
    ("parallelism", "enable_compiled_autograd", False),
    ("parallelism", "expert_parallel_degree", 1),
    ("parallelism", "context_parallel_load_balancer", "headtail"),
    ("fault_tolerance", "sync_steps", 5),
    ("validation", "enable", False),
    ("validation", "freq", 5),
)
"""Keys of which no release has all, as people write them."""

COMMENTS = ("as before", "from the 8B run", "try false", "note = 1")


def mixed(version: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield files with keys of several releases, after the fixes for one of them.

    ``before`` is the text before ``fp8tune lint --fix --unsafe-fixes``.
    """
    draw = random.Random(f"mixed {version} {seed}")  # noqa: S311
    for number in range(count):
        before = "\n".join(_mixed(draw)) + "\n"
        case = {
            "version": version,
            "id": f"{version}-{seed}-{number}",
            "world_size": 8,
            "before": before,
        }
        yield case | {"toml": migrated(case).data.decode()}


def _mixed(draw: random.Random) -> Iterator[str]:
    converter = draw.choice(("float8", "quantize.linear.float8"))
    model = {"name": "llama3", "flavor": "debugmodel", "converters": [converter]}
    tables: dict[str, dict[str, Any]] = {
        "model": model,
        "training": {"local_batch_size": 2, "seq_len": 2048},
    }
    for table, key, value in draw.sample(LINES, draw.randint(2, 12)):
        tables.setdefault(table, {}).setdefault(key, value)
    names = list(tables)
    draw.shuffle(names)
    for name in names:
        yield f"[{name}]"
        pairs = list(tables[name].items())
        draw.shuffle(pairs)
        for key, value in pairs:
            if draw.random() < 0.3:
                yield f"# {draw.choice(COMMENTS)}"
            behind = f"  # {draw.choice(COMMENTS)}" if draw.random() < 0.3 else ""
            yield f"{key} = {toml(value)}{behind}"
        if draw.random() < 0.7:
            yield ""
