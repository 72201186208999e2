"""The schema of Megatron-Bridge's YAML overrides, generated from checkouts.

``python -m tools.megatron_bridge.schema BRIDGE MEGATRON`` writes ``schema.toml``
and ``recipes.toml`` in ``fp8tune/trainers/megatron_bridge/``. Sections and keys come
from the config classes of both checkouts, recipes of mixed precision from the functions
that register them; all are parsed and not run. ``--check`` writes nothing and exits
with 1 if a file differs.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.automodel.schema import spec
from tools.schema_file import ROOT, toml

FOLDER = ROOT / "fp8tune" / "trainers" / "megatron_bridge"
COMMIT = "067f987df03b8355b03192d88d70f1709fedf51a"
CONTAINER, PRECISION = "ConfigContainer", "MixedPrecisionConfig"
CLASSES = {
    "model": "GPTModelProvider",
    "train": "TrainingConfig",
    "optimizer": "OptimizerConfig",
    "ddp": "DistributedDataParallelConfig",
    "scheduler": "SchedulerConfig",
    "logger": "LoggerConfig",
    "checkpoint": "CheckpointConfig",
    "dist": "DistributedInitConfig",
    "rng": "RNGConfig",
    "mixed_precision": PRECISION,
}
"""The sections whose keys are known, and their classes."""

DEFAULTS = ("mixed_precision",)
"""Sections that start from their class; the others start from a recipe."""

DOCS = {
    "mixed_precision": "Name of a mixed precision, or its fields.",
    "mixed_precision.fp8": "FP8 format: e4m3 or hybrid.",
    "mixed_precision.fp8_recipe": "tensorwise, delayed, mxfp8 or blockwise.",
    "mixed_precision.fp8_param_gather": "Keep weights in FP8 and gather them so.",
    "mixed_precision.first_last_layers_bf16": "Keep the first and last layers in bf16.",
    "model.fp8": "Set at start from `mixed_precision`.",
    "model.fp8_recipe": "Set at start from `mixed_precision`.",
    "model.transformer_impl": "Kind of layers, which GPTModelProvider ignores.",
}
JOB = {
    "micro_batch": "train.micro_batch_size",
    "max_steps": "train.train_iters",
    "learning_rate": "optimizer.lr",
    "tp": "model.tensor_model_parallel_size",
    "pp": "model.pipeline_model_parallel_size",
    "cp": "model.context_parallel_size",
    "ep": "model.expert_model_parallel_size",
    "seq_len": "model.seq_length",
    "hidden_size": "model.hidden_size",
    "layers": "model.num_layers",
    "heads": "model.num_attention_heads",
    "sequence_parallel": "model.sequence_parallel",
    "optimizer": "optimizer.optimizer",
    "global_batch_size": "train.global_batch_size",
    "use_precision_aware_optimizer": "optimizer.use_precision_aware_optimizer",
    "num_distributed_optimizer_instances": "ddp.num_distributed_optimizer_instances",
}
"""Fields of the job, and names that Megatron-LM has for the same settings."""

SAME = {
    "model": (
        "kv_channels",
        "expert_tensor_parallel_size",
        "moe_ffn_hidden_size",
        "moe_shared_expert_intermediate_size",
        "moe_layer_freq",
        "moe_router_topk",
        "position_embedding_type",
        "normalization",
        "qk_layernorm",
        "attention_dropout",
        "hidden_dropout",
        "cross_entropy_loss_fusion",
        "cross_entropy_fusion_impl",
        "recompute_modules",
        "recompute_method",
        "recompute_num_layers",
        "distribute_saved_activations",
    ),
    "mixed_precision": (
        "bf16",
        "fp16",
        "fp8_param_gather",
        "first_last_layers_bf16",
        "num_layers_at_start_in_bf16",
        "num_layers_at_end_in_bf16",
    ),
}
"""Settings with the same name in Megatron-LM, by their section."""


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(prog="megatron_bridge.schema", description=__doc__)
    parser.add_argument("bridge", type=Path)
    parser.add_argument("megatron", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    nodes = dict(class_nodes(options.bridge, options.megatron))
    different = 0
    for name, text in (
        ("schema.toml", "\n".join(lines(nodes)) + "\n"),
        ("recipes.toml", "\n".join(recipe_lines(options.bridge)) + "\n"),
    ):
        path = FOLDER / name
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            different += 1
            print(f"{name}: differs from the checkouts")
    return int(bool(different))


def class_nodes(bridge: Path, megatron: Path) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes of both checkouts, Megatron-LM's below ``theirs``."""
    training = bridge / "src" / "megatron" / "bridge" / "training"
    own = (training / "config.py", training / "mixed_precision.py")
    provider = bridge / "src" / "megatron" / "bridge" / "models" / "gpt_provider.py"
    core = megatron / "megatron" / "core"
    theirs = (
        *sorted((megatron / "megatron" / "training" / "config").glob("*.py")),
        core / "transformer" / "transformer_config.py",
        core / "model_parallel_config.py",
        core / "optimizer" / "optimizer_config.py",
        core / "distributed" / "distributed_data_parallel_config.py",
    )
    for path in (*own, provider):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                yield node.name, node
    for path in theirs:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                yield f"theirs.{node.name}", node


def fields(nodes: dict[str, ast.ClassDef], name: str) -> dict[str, dict[str, Any]]:
    """Return the fields of a class and of those that it is built on."""
    node = nodes.get(name) or nodes.get(f"theirs.{name}")
    found: dict[str, dict[str, Any]] = {}
    if node is None:
        return found
    for base in node.bases:
        plain = re.sub(r"^(MTrain|MCore)", "theirs.", ast.unparse(base))
        found |= fields(nodes, plain.partition("[")[0])
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found[item.target.id] = spec(item.annotation, item.value)
    return {name: each for name, each in found.items() if name[0] != "_"}


def lines(nodes: dict[str, ast.ClassDef]) -> Iterator[str]:
    """Yield the lines of the schema."""
    yield "# What Megatron-Bridge reads of a YAML file of overrides, as data."
    yield "#"
    yield "# Generated by tools/megatron_bridge/schema.py from checkouts of it and"
    yield "# of Megatron-LM; change that. A section of class Open has any keys. Only"
    yield "# mixed_precision has defaults: other values come from a recipe in Python."
    yield "# kempnerforge/schema.toml explains the fields of a key."
    yield ""
    yield 'title = "Megatron-Bridge"'
    yield f'source = "https://github.com/NVIDIA-NeMo/Megatron-Bridge/tree/{COMMIT}"'
    yield 'unknown_keys = "ignored"'
    yield ""
    yield "[sections]"
    for section in fields(nodes, CONTAINER):
        kind = section.capitalize() if section in CLASSES else "Open"
        yield f"{section} = {toml(f'{kind} | None')}"
    yield ""
    yield "[job]"
    same = {
        name: f"{section}.{name}" for section, names in SAME.items() for name in names
    }
    for field, key in (JOB | same).items():
        yield f"{field} = {toml(key)}"
    yield ""
    yield "[variants]"
    yield ""
    yield "[classes.Open]"
    for section, name in CLASSES.items():
        yield ""
        yield f"[classes.{section.capitalize()}]"
        for key, found in fields(nodes, name).items():
            doc = DOCS.get(f"{section}.{key}")
            kept = found if section in DEFAULTS else {"type": found["type"]}
            yield f"{key} = {toml(kept | ({'doc': doc} if doc else {}))}"


def recipe_lines(bridge: Path) -> Iterator[str]:
    """Yield what each recipe of mixed precision sets, beyond the class."""
    path = bridge / "src" / "megatron" / "bridge" / "training" / "mixed_precision.py"
    functions = {
        node.name: node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(each) == "register" for each in node.decorator_list)
    }
    yield "# The recipes of mixed precision, by name: what each sets."
    yield "# Generated by tools/megatron_bridge/schema.py."
    for name, node in functions.items():
        yield ""
        yield f"[{name}]"
        for key, value in settings(functions, node).items():
            yield f"{key} = {toml(value)}"


def settings(
    functions: dict[str, ast.FunctionDef], node: ast.FunctionDef
) -> dict[str, Any]:
    """Return what a recipe's function sets; a dtype is left out."""
    found: dict[str, Any] = {}
    for item in ast.walk(node):
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name):
            if item.func.id in functions:
                found = settings(functions, functions[item.func.id]) | found
            if item.func.id == PRECISION:
                for word in item.keywords:
                    if isinstance(word.value, ast.Constant):
                        found[str(word.arg)] = word.value.value
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
            if isinstance(target, ast.Attribute) and isinstance(value, ast.Constant):
                found[target.attr] = value.value
    return {key: value for key, value in found.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main())
