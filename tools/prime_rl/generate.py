"""Configs of prime-rl as people write them, right and wrong, drawn at random.

A config starts from one that prime-rl accepts. Then a few things change: precision, AC,
offload, parallelism, schedules, GPUs, weight broadcast, shared tables, a key's value,
type or name. Half of the changes of a value are made at any key of the schema.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from fp8tune.trainers.trainer import trainer
from tools.prime_rl.source import KINDS, RELEASE
from tools.schema_file import toml

Config = dict[str, Any]
Change = Callable[[Config, random.Random, str], None]

MODEL = "Qwen/Qwen3-4B-Instruct-2507"
SOURCE = {"env": {"taskset": {"id": "reverse-text"}}}
STARTS: dict[str, tuple[Config, ...]] = {
    "sft": (
        {"model": {"name": MODEL}, "data": {"batch_size": 32, "seq_len": 4096}},
        {"max_steps": 100, "data": {"type": "fake", "batch_size": 8}},
        {
            "model": {"name": MODEL, "impl": "custom"},
            "deployment": {"type": "multi_node", "num_train_nodes": 4},
            "slurm": {},
        },
        {
            "model": {"name": MODEL},
            "eval": {"source": [SOURCE]},
            "inference": {},
            "deployment": {"num_train_gpus": 4, "num_infer_gpus": 4},
        },
    ),
    "rl": (
        {
            "max_steps": 100,
            "seq_len": 4096,
            "model": {"name": MODEL},
            "trainer": {},
            "orchestrator": {
                "batch_size": 128,
                "group_size": 8,
                "train": {"source": [SOURCE]},
            },
            "inference": {},
        },
        {
            "trainer": {"model": {"name": MODEL}},
            "orchestrator": {"model": {"name": MODEL}, "train": {"source": [SOURCE]}},
        },
        {
            "model": {"name": MODEL},
            "deployment": {
                "type": "multi_node",
                "num_train_nodes": 2,
                "num_infer_nodes": 2,
            },
            "slurm": {},
            "trainer": {"model": {"impl": "custom"}},
            "orchestrator": {"train": {"source": [SOURCE]}},
            "inference": {"vllm": {"tensor_parallel_size": 2}},
        },
    ),
    "rl_trainer": (
        {"model": {"name": MODEL}, "data": {"fake": {"batch_size": 2}}},
        {"max_steps": 10, "model": {"name": MODEL, "impl": "custom"}},
    ),
}
"""Configs that prime-rl accepts, by kind."""

ODD: tuple[Any, ...] = (0, 1, -1, 2, 3, 8, 0.5, 2.0, 1e30, "", "2", "x", "None")
ODD += (
    "true",
    "False",
    "1e-4",
    True,
    False,
    [],
    [1],
    ["a"],
    {},
    {"a": 1},
    {"type": "x"},
)
"""Values that are tried for any key."""


def configs(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield configs of each kind; the trainer alone gets a third as many."""
    for kind in KINDS:
        draw = random.Random(f"{kind} {seed}")  # noqa: S311
        for number in range(count if kind != "rl_trainer" else count // 3):
            config = copy.deepcopy(draw.choice(STARTS[kind]))
            for change in draw.choices(CHANGES, k=draw.choice((0, 1, 1, 1, 2, 2, 3))):
                change(config, draw, kind)
            yield {
                "kind": kind,
                "id": f"{kind}-{seed}-{number}",
                "toml": text(config),
            }


def text(config: Config) -> str:
    """Return a config as TOML: what is no table first."""
    tables = {key: value for key, value in config.items() if isinstance(value, dict)}
    lines = [f"{k} = {toml(v)}" for k, v in config.items() if k not in tables]
    for name, table in tables.items():
        lines += _lines(name, table)
    return "\n".join(lines) + "\n"


def _lines(name: str, table: Config) -> Iterator[str]:
    """The lines of a table, with those inside it below; two levels deep."""
    inner = {k: v for k, v in table.items() if isinstance(v, dict) and "." not in name}
    yield f"[{name}]"
    yield from (f"{k} = {toml(v)}" for k, v in table.items() if k not in inner)
    for key, value in inner.items():
        yield from _lines(f"{name}.{key}", value)


def _table(config: Config, path: str) -> Config:
    """The table at a path; an empty one where something else stands."""
    for part in filter(None, path.split(".")):
        if not isinstance(config.get(part), dict):
            config[part] = {}
        config = config[part]
    return config


def _model_table(config: Config, kind: str) -> Config:
    return _table(config, "trainer.model" if kind == "rl" else "model")


def _own(kind: str) -> str:
    """What stands before the trainer's own tables."""
    return "trainer." if kind == "rl" else ""


def _some(table: Config, draw: random.Random, **choices: tuple[Any, ...]) -> None:
    """Set some of the keys, at least one."""
    names = draw.sample(list(choices), k=min(len(choices), draw.choice((1, 1, 2, 3))))
    for name in names:
        table[name] = draw.choice(choices[name])


def _precision(config: Config, draw: random.Random, kind: str) -> None:
    model = _model_table(config, kind)
    tables: tuple[Any, ...] = (
        *({"type": "fp8"}, {"type": "fp8"}, {"type": "mxfp8"}, {"type": "fp8e4m3"}),
        *({}, "fp8", True, "None", {"type": "fp8", "enable_grouped_gemm": "false"}),
        {"type": "fp8", "ignore_patterns": ["lm_head"]},
        {"type": "fp8", "ignore_patterns": "lm_head"},
        {"type": "mxfp8", "recipe": "mxfp8_rceil_wgrad_with_hp"},
        {"type": "mxfp8", "recipe": "rceil"},
        {"type": "mxfp8", "enable_a2a": False},
        {"type": "fp8", "enable_a2a": True},
        {"type": "fp8", "recipe": "rowwise"},
    )
    model["quantization"] = copy.deepcopy(draw.choice(tables))
    if draw.random() < 0.15:
        model["fp8"] = True
    if draw.random() < 0.4:
        _some(model, draw, impl=("hf", "custom", "auto"), ep_comm_backend=("deepep",))


def _implementation(config: Config, draw: random.Random, kind: str) -> None:
    attention = ("flash_attention_2", "flash_attention_3", "flash_attention_4", "auto")
    _some(
        _model_table(config, kind),
        draw,
        impl=("hf", "hf", "custom", "auto", "liger_kernel"),
        attn=(*attention, "sdpa"),
        trust_remote_code=(True, False),
        cp=(1, 2, 4, "2"),
        cp_style=("ring", "ulysses"),
        ep=(1, 2, 8, "auto", "8", 0, True),
        ep_comm_backend=("torch", "deepep", "deepep"),
    )


def _memory(config: Config, draw: random.Random, kind: str) -> None:
    _some(
        _model_table(config, kind),
        draw,
        ac=("None", {}, {"mode": "selective"}, {"mode": "selective", "targets": []}),
        ac_offloading=("None", {}, {"max_inflight_activations": 0}),
        optim_cpu_offload=(True, False, False),
        full_offload=(True, False, "true", {}, {"numa_bind": False}, "None"),
        fsdp_cpu_offload=(True, False),
        compile=("None", {}, {"fullgraph": True}, True),
        optimization_dtype=("bfloat16", "float32", "bf16"),
        reduce_dtype=("bfloat16", "float32"),
        reshard_after_forward=(True, False, 0),
    )


def _adapter(config: Config, draw: random.Random, kind: str) -> None:
    model = _model_table(config, kind)
    model["lora"] = draw.choice(({}, {"rank": 8}, {"rank": 0}, {"dropout": 1.5}))
    if kind == "rl" and draw.random() < 0.4:
        table = _table(config, "orchestrator.model.lora")
        _some(table, draw, rank=(8, 16, 32), alpha=(32, 16.0), name=("a",))


def _optimizer(config: Config, draw: random.Random, kind: str) -> None:
    table = _table(config, f"{_own(kind)}optim")
    _some(
        table,
        draw,
        type=("adamw", "muon", "sgd", "sign_sgd", "AdamW"),
        lr=(1e-5, "1e-5", 0, -1e-5, "fast"),
        weight_decay=(0.1, 0),
        max_norm=(1.0, "None", 0, -1),
        betas1=(0.9, -0.1),
        mu=(0.95,),
        nesterov=(True,),
    )
    if draw.random() < 0.3:
        _model_table(config, kind)["full_offload"] = True
        _model_table(config, kind)["optim_cpu_offload"] = False


def _schedule(config: Config, draw: random.Random, kind: str) -> None:
    table = _table(config, f"{_own(kind)}scheduler")
    _some(
        table,
        draw,
        type=("linear", "cosine", "constant", "wsd"),
        warmup_steps=(0, 5, 10, 100, 200),
        decay_steps=(0, 10, 90, 100),
        min_lr=(0.0, 1e-7),
    )
    if draw.random() < 0.6:
        _steps(config, draw, kind)


def _steps(config: Config, draw: random.Random, kind: str) -> None:
    steps = draw.choice((5, 10, 100, 1000, "None", "100", 1.5, True))
    where = [""]
    if kind == "rl":
        where = ["", "", "trainer", "orchestrator"]
    _table(config, draw.choice(where))["max_steps"] = steps


def _trace(config: Config, draw: random.Random, kind: str) -> None:
    _table(config, _own(kind).rstrip("."))["trace_path"] = draw.choice(("t", 1))
    if draw.random() < 0.6:
        _steps(config, draw, kind)


def _data(config: Config, draw: random.Random, kind: str) -> None:
    if kind != "sft":
        _some(
            _table(config, f"{_own(kind)}data"),
            draw,
            fake=({}, {"batch_size": 0}, "None"),
        )
        return
    name = draw.choice(("data", "data", "val.data"))
    _some(
        _table(config, name),
        draw,
        type=("sft", "fake", "hf"),
        batch_size=(1, 7, 8, 128, 0),
        micro_batch_size=(1, 2, 4, 3),
        seq_len=(1024, 1023, 4096),
        subsets=(["a"], ["a", "b"]),
        splits=(["train"], ["a", "b"]),
        probabilities=([0.5], [0.5, 0.5]),
        length=("variable",),
        loss_mask=({"user": True}, {"users": True}),
    )


def _gpus(config: Config, draw: random.Random, kind: str) -> None:
    if kind == "rl_trainer":
        return
    _some(
        _table(config, "deployment"),
        draw,
        type=("single_node", "multi_node"),
        num_train_gpus=(1, 4, 8, 9),
        num_infer_gpus=(1, 3, 4, 8),
        num_train_nodes=(1, 2, 3),
        num_infer_nodes=(0, 1, 2),
        nodes_per_fsdp_group=(1, 2),
        gpus_per_node=(4, 8),
    )
    if draw.random() < 0.3:
        config.pop("slurm", None)


def _broadcast(config: Config, draw: random.Random, kind: str) -> None:
    where = ["weight_broadcast"]
    if kind == "rl":
        where += ["trainer.weight_broadcast", "orchestrator.weight_broadcast"]
    _some(
        _table(config, draw.choice(where)),
        draw,
        type=("filesystem", "nccl", "nixl", "zmq"),
        port=(29501, "29501"),
        quantize_in_weight_transfer=(True, False),
    )


def _inference(config: Config, draw: random.Random, kind: str) -> None:
    if kind == "rl_trainer":
        return
    _some(
        _table(config, "inference.vllm"),
        draw,
        quantization=("fp8",),
        tensor_parallel_size=(1, 2, 3, 4),
        data_parallel_size=(1, 2, 4),
        max_num_seqs=(64,),
        model=(MODEL, "Qwen/Qwen3-8B"),
        enable_expert_parallel=(True,),
        enable_eplb=(True,),
        enable_return_routed_experts=(True,),
        max_lora_rank=(8, 600),
        enable_prefix_caching=(False,),
        dtype=("bfloat16", "fp8"),
    )
    if draw.random() < 0.5:
        _some(
            _table(config, "inference"),
            draw,
            router=("None", {"type": "llm-d"}, {"type": "vllm-router"}, {}),
            kv_cache_offload=(
                {"type": "native", "cpu": {"num_bytes": 1}},
                {"type": "mooncake", "cpu": {"num_bytes": 1}},
                {"type": "native"},
                {"cpu": {"num_bytes": 1}},
            ),
            deployment=(
                {"type": "multi_node"},
                {"type": "disaggregated"},
                {"num_nodes": 2},
            ),
            quantization=("fp8",),
            use_deep_gemm=(True,),
        )


def _orchestrator(config: Config, draw: random.Random, kind: str) -> None:
    if kind != "rl":
        return
    table = _table(config, "orchestrator")
    teacher = {"name": "t", "base_url": "http://localhost:1/v1"}
    _some(
        table,
        draw,
        batch_size=(128, 100, 7, 0),
        token_batch_size=(100000,),
        group_size=(1, 7, 8, 16),
        seq_len=(1024, 8192),
        max_off_policy_steps=(0, -1),
        algo=(
            {"type": "grpo"},
            {},
            {"type": "opd"},
            {"type": "opd", "teacher": teacher},
            {"type": "opd", "teacher": {"name": "t"}},
            {"type": "sft"},
            {"type": "sft", "sampling": {"source": teacher}},
            {"type": "grpo", "sampling": {"source": teacher}},
            {"type": "echo", "roles": {}},
            {"type": "echo", "roles": {"tool": {"alpha": 0}}},
            {"type": "rae", "decay": 1.0},
            {"type": "ppo"},
        ),
        eval=({}, {"source": [SOURCE]}, {"interval": 10}),
        concurrency=({"max_inflight": 4}, {"min_inflight": 2000}, {"max_inflight": 8}),
        train=({"source": [SOURCE, SOURCE]}, {"source": [{}]}, {"source": []}),
        ckpt=({}, {"interval": 10}),
        monitors=({"wandb": {}}, {"wandb": {"project": "x"}}),
    )


def _shared(config: Config, draw: random.Random, kind: str) -> None:
    """Set what trainer and orchestrator share, in one place or in two."""
    if kind == "rl_trainer":
        return
    where = ["", "", "trainer", "orchestrator"] if kind == "rl" else [""]
    _some(
        _table(config, draw.choice(where)),
        draw,
        ckpt=({}, {"interval": 10}, {"interval": 20, "keep_last": 1}, {"keep_last": 0}),
        tokenizer=({"name": MODEL}, {"chat_template": "x"}),
        monitors=({"wandb": {"project": "x"}}, {"wandb": {"offline": True}}, {}),
        log=({"level": "debug"}, {"level": 1}, {"json_logging": True}),
        resume=({}, {"step": 10}, {"step": 10, "dir": "a/step_1"}, {"dir": "a/b"}),
        output_dir=("outputs/x",),
        env_vars=({"A": "1"}, {"A": 1}, {"WANDB_RUN_ID": "x"}),
        run=({"name": "x"},),
        rollout_transport=({"type": "filesystem"}, {"type": "zmq", "port": 1}),
        enable_router_replay=(True,),
    )


def _length(config: Config, draw: random.Random, kind: str) -> None:
    where = ["model"]
    if kind == "rl":
        where = ["", "trainer.model", "orchestrator"]
    _table(config, draw.choice(where))["seq_len"] = draw.choice((1024, 8192, "4096"))


def _any_value(config: Config, draw: random.Random, kind: str) -> None:
    """Set any key of the schema to any value."""
    schema = trainer(f"prime_rl=={RELEASE}.{kind}").schema
    keys = [name for name, spec in schema.dotted_keys() if "Any" not in spec.type]
    path, _, key = draw.choice(keys).rpartition(".")
    _table(config, path)[key] = copy.deepcopy(draw.choice(ODD))


def _own_value(config: Config, draw: random.Random, _: str) -> None:
    """Set a key that the file has to any value."""
    table = config
    while (inner := [v for v in table.values() if isinstance(v, dict) and v]) and (
        table is config or draw.random() < 0.5
    ):
        table = draw.choice(inner)
    names = [name for name in table if name != "env"]
    if names:
        table[draw.choice(names)] = copy.deepcopy(draw.choice(ODD))


def _name(config: Config, draw: random.Random, kind: str) -> None:
    """Write a key that does not exist, or not there."""
    own = _own(kind)
    path, key, value = draw.choice(
        (
            (f"{own}model", "fp8", True),
            (f"{own}model", "quantisation", {"type": "fp8"}),
            (f"{own}model", "precision", "fp8"),
            (f"{own}model", "activation_checkpointing", True),
            (f"{own}optim", "learning_rate", 1e-5),
            (f"{own}optim", "eps", 1e-8),
            (f"{own}model.compile", "enable", True),
            ("", "steps", 10),
            ("", "batch_size", 8),
            ("data", "micro_batch", 1),
            ("inference", "quantization", "fp8"),
            ("optimizer", "lr", 1e-5),
            ("wandb", "project", "x"),
            (f"{own}model.ac", "freq", 0),
            (f"{own}model.debug", "num_layers", 2),
        )
    )
    _table(config, path)[key] = value


CHANGES: tuple[Change, ...] = (
    *(_precision, _precision, _precision, _implementation, _implementation, _memory),
    *(_memory, _adapter, _optimizer, _schedule, _trace, _data, _data, _gpus, _gpus),
    *(_broadcast, _inference, _inference, _orchestrator, _orchestrator, _shared),
    *(_shared, _length, _any_value, _any_value, _any_value, _own_value, _own_value),
    *(_name, _steps),
)
