"""How the values of a prime-rl config must fit together.

Each check gets the values of one table, with defaults, and yields cases: whether
prime-rl refuses the values, the keys to blame, the reason, and maybe what to do. The
first case that holds counts. Like prime-rl a check may fill in what follows. What
depends on installed packages is not checked: environments, and renderers of models.

Source: prime-rl 0.8.1.dev67, the validators in packages/prime-rl-configs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from fp8tune.trainers.prime_rl import rl_checks
from fp8tune.trainers.prime_rl.rl_checks import Case, Values, environment

OWN = ("custom", "auto")
"""Implementations of a model that are prime-rl's own, or may be."""
USE = 'use `impl = "auto"` or `"custom"`'
NEEDS_OWN = "needs prime-rl's own implementation of the model"

OFFLOADED = "set `optim_cpu_offload = false`: it is true by default"


def model(c: Values) -> Iterator[Case]:
    """``[model]`` of SFT, ``[trainer.model]`` of RL."""
    hf = c["impl"] not in OWN
    vision, kind = c["vlm"] is not None, (c["quantization"] or {}).get("type", "")
    reason = "remote code needs Hugging Face's implementation of the model"
    remote = c["trust_remote_code"] and c["impl"] == "custom"
    yield remote, "trust_remote_code impl", reason, 'use `impl = "auto"`'
    reason = 'vision-language models need `impl = "custom"`'
    yield vision and c["impl"] != "custom", "impl vlm", reason
    reason = 'vision-language models need `cp_style = "ulysses"` for CP'
    yield vision and c["cp"] > 1 and c["cp_style"] != "ulysses", "cp_style cp", reason
    yield c["cp"] > 1 and hf, "impl cp", f"context parallelism {NEEDS_OWN}", USE
    selective = c["ac"] is not None and c["ac"]["mode"] == "selective"
    yield selective and hf, "impl ac.mode", f"selective AC {NEEDS_OWN}", USE
    offload = c["optim_cpu_offload"], c["full_offload"] is not None
    keys = "fsdp_cpu_offload optim_cpu_offload full_offload"
    reason = "FSDP's CPU offload excludes the offload of the optimizer"
    yield c["fsdp_cpu_offload"] and any(offload), keys, reason, OFFLOADED
    reason = "`full_offload` and `optim_cpu_offload` exclude each other"
    yield all(offload), "full_offload optim_cpu_offload", reason, OFFLOADED
    newest = c["attn"] in ("flash_attention_4", "auto")
    reason = f'`attn = "{c["attn"]}"` may be FlashAttention 4, which {NEEDS_OWN}'
    hint = f'{USE}, or `attn = "flash_attention_3"`'
    yield newest and hf, "impl attn", reason, hint
    yield kind and hf, "impl quantization.type", f"{kind} training {NEEDS_OWN}", USE
    deep = c["ep_comm_backend"] != "torch"
    alone = isinstance(c["ep"], int) and c["ep"] <= 1
    reason = "DeepEP needs expert parallelism"
    yield deep and alone, "ep_comm_backend ep", reason, "set `ep` above 1"
    reason = 'MXFP8 needs `ep_comm_backend = "torch"`'
    yield deep and kind == "mxfp8", "quantization.type ep_comm_backend", reason


def selective_ac(c: Values) -> Iterator[Case]:
    """Selective AC needs something to recompute."""
    nothing = c["mode"] == "selective" and not c["targets"]
    yield nothing, "targets mode", "selective AC needs at least one target"


def batch(c: Values) -> Iterator[Case]:
    """A batch is whole micro-batches."""
    reason = "the batch size must be a multiple of the micro-batch size"
    rest = c["batch_size"] % c["micro_batch_size"]
    yield rest, "micro_batch_size batch_size", reason


def parts(c: Values) -> Iterator[Case]:
    """Subsets, splits and their probabilities come in pairs."""
    for pair in (
        ("subsets", "splits"),
        ("probabilities", "subsets"),
        ("probabilities", "splits"),
    ):
        one, other = (c[name] for name in pair)
        apart = one is not None and other is not None and len(one) != len(other)
        yield apart, " ".join(pair), f"`{pair[0]}` and `{pair[1]}` differ in length"


def gpus_of_a_node(c: Values) -> Iterator[Case]:
    """One node has only so many GPUs: for SFT the trainer's, for RL all."""
    used = c["num_train_gpus"]
    if "num_eval_gpus" not in c:
        used += c["num_infer_gpus"]
    keys = "num_train_gpus num_infer_gpus gpus_per_node"
    reason = f"{used} GPUs are more than `gpus_per_node` ({c['gpus_per_node']})"
    yield used > c["gpus_per_node"], keys, reason


def resume(c: Values) -> Iterator[Case]:
    """One checkpoint is named, by its step or its folder."""
    folder = (c["dir"] or "step_1").rstrip("/").rpartition("/")[2]
    both = c["step"] is not None and c["dir"] is not None
    yield both, "step dir", "`step` and `dir` exclude each other"
    strange = c["dir"] == "" or not re.fullmatch(r"step_\d+", folder)
    yield strange, "dir", "the folder of a checkpoint is called step_N"


def schedule(c: Values) -> Iterator[Case]:
    """The phases of the learning rate fit into the run."""
    plan, steps = c["scheduler"], c["max_steps"]
    kind, warmup = plan["type"], plan.get("warmup_steps", 0)
    decay = plan.get("decay_steps", 0)
    keys = "scheduler.warmup_steps scheduler.decay_steps scheduler.type max_steps"
    linear, cosine = kind == "linear", kind == "cosine"
    idle = linear and not warmup and not decay
    reason = "a linear schedule needs warmup or decay steps"
    yield idle, keys, reason, 'use `type = "constant"`'
    ends = cosine or (linear and decay > 0)
    yield (
        ends and steps is None,
        "scheduler.type",
        f"a {kind} schedule needs `max_steps`",
    )
    if ends:
        reason = f"{warmup} warmup and {decay} decay steps exceed `max_steps` ({steps})"
        yield linear and warmup + decay > steps, keys, reason
        reason = f"{warmup} warmup steps leave none of `max_steps` ({steps}) to decay"
        yield cosine and warmup >= steps, keys, reason


def run(c: Values) -> Iterator[Case]:
    """What SFT and RL check of the optimizer, the model and the trace."""
    own, optimizer = c["model"], c["optim"]["type"]
    offload = own["full_offload"] is not None
    wrong = offload and optimizer not in ("adamw", "sign_sgd")
    reason = "`full_offload` works with adamw and sign_sgd only"
    yield wrong, "optim.type model.full_offload", reason
    vision = own["vlm"] is not None
    dtypes = {own["optimization_dtype"], own["reduce_dtype"]}
    keys = "model.optimization_dtype model.reduce_dtype"
    reason = "vision-language models need bfloat16 for both dtypes"
    yield vision and dtypes != {"bfloat16"}, keys, reason
    frozen = vision and own["vlm"]["freeze_vision_encoder"]
    keys = "model.vlm.freeze_vision_encoder model.lora"
    yield (
        vision and not frozen and own["lora"] is not None,
        keys,
        "LoRA freezes the vision encoder",
    )
    steps, trace = c["max_steps"], c["trace_path"] is not None
    yield trace and steps is None, "trace_path", "a trace needs `max_steps`"
    reason = "a trace of 10 or more steps is refused"
    yield trace and steps >= 10, "max_steps trace_path", reason
    yield from schedule(c)
    reason = "Muon does not work with FSDP's CPU offload"
    wrong = optimizer == "muon" and own["fsdp_cpu_offload"]
    yield wrong, "optim.type model.fsdp_cpu_offload", reason
    wrong = own["ep"] not in (1, "auto") and own["impl"] not in OWN
    yield wrong, "model.ep model.impl", f"expert parallelism {NEEDS_OWN}", USE


def trainer(c: Values) -> Iterator[Case]:
    """``[trainer]`` of RL."""
    own = c["model"]
    memory = c["weight_broadcast"]["type"] != "filesystem"
    keys = "weight_broadcast.type model.lora"
    yield own["lora"] is not None and memory, keys, rl_checks.THROUGH_FILES
    replay = c["enable_router_replay"] and own["impl"] not in OWN
    yield replay, "enable_router_replay model.impl", f"router replay {NEEDS_OWN}", USE


def sft(c: Values) -> Iterator[Case]:
    """A whole SFT file."""
    nodes = c["deployment"]
    multi = nodes["type"] == "multi_node"
    yield multi and c["slurm"] is None, "deployment.type", rl_checks.NEEDS_SLURM
    idle = c["eval"] is None and c["inference"] is not None
    yield idle, "inference", "`[inference]` is used by `[eval]` alone"
    if c["eval"] is not None:
        yield from online_eval(c)
    own, data = c["model"], {"data": c["data"]}
    if c["val"] is not None:
        data["val.data"] = c["val"]["data"]
    for name, table in data.items():
        rest = own["cp"] > 1 and table["seq_len"] % own["cp"]
        keys = f"{name}.seq_len model.cp"
        yield rest, keys, "CP must divide the sequence length"
        many = table["micro_batch_size"] != 1
        keys = f"{name}.micro_batch_size model.cp model.vlm"
        yield many and own["cp"] > 1, keys, "with CP the micro-batch size must be 1"
        reason = "vision-language models need a micro-batch size of 1"
        yield many and own["vlm"] is not None, keys, reason
    yield from rl_checks.node_groups(nodes)


def online_eval(c: Values) -> Iterator[Case]:
    """``[eval]`` of SFT: how weights get to inference."""
    lora, server = c["model"]["lora"] is not None, c["inference"]
    kind = "filesystem" if lora or server is None else "nccl"
    if c["weight_broadcast"] is not None:
        kind = c["weight_broadcast"]["type"]
    key = "weight_broadcast.type"
    yield kind == "nixl", key, "NIXL is not for online evals"
    memory = kind != "filesystem"
    yield memory and lora, f"{key} model.lora", rl_checks.THROUGH_FILES
    again = c["eval"]["retrigger_on_resume"]
    reason = "this needs a weight broadcast through files"
    yield memory and again, f"eval.retrigger_on_resume {key}", reason
    if c["deployment"]["type"] == "multi_node":
        reason = "online evals on several nodes need `[inference]`"
        yield server is None, "eval", reason
        few = c["deployment"]["num_infer_nodes"] < 1
        key = "deployment.num_infer_nodes"
        yield few, key, "online evals need a node for inference"
        router = server["router"]
        yield router is None, "inference.router", rl_checks.NEEDS_ROUTER
    if server is not None:
        yield from eval_server(c)


def eval_server(c: Values) -> Iterator[Case]:
    """The GPUs, the model and the address of inference in an SFT file."""
    nodes, vllm = c["deployment"], c["inference"]["vllm"]
    gpus, single = nodes["gpus_per_node"], nodes["type"] == "single_node"
    if single:
        mine = "num_infer_gpus"
        if mine not in nodes.own and "num_eval_gpus" in nodes.own:
            mine = "num_eval_gpus"  # its other name
        used = nodes["num_train_gpus"] + nodes[mine]
        keys = f"deployment.num_train_gpus deployment.{mine}"
        reason = f"{used} GPUs are more than `gpus_per_node` ({gpus})"
        yield used > gpus, keys, reason
        gpus = nodes[mine]
    other = vllm["model"] != c["model"]["name"]
    reason = "inference and training need the same model"
    yield other, "inference.vllm.model model.name", reason
    tp = vllm["tensor_parallel_size"]
    whole = single and gpus == vllm["data_parallel_size"] * tp
    yield not whole and (not tp or gpus % tp), *rl_checks.tp_divides(gpus)
    client, port = c["eval"]["client"], c["inference"]["server"]["port"]
    given = re.search(r"//[^/]*:(\d+)", client["base_url"])
    same = given is not None and int(given[1]) == port
    keys = "eval.client.base_url inference.server.port"
    wrong = single and "base_url" in client.own and not same
    yield wrong, keys, "the client's port is not the server's"


CHECKS: dict[str, tuple[Callable[[Values], Iterator[Case]], ...]] = {
    "ModelConfig": (model,),
    "ActivationCheckpointConfig": (selective_ac,),
    "FakeDataConfig": (batch,),
    "SFTDataConfig": (batch, parts),
    "SingleNodeDeploymentConfig": (gpus_of_a_node,),
    "ResumeConfig": (resume,),
    "TrainerConfig": (environment, run, trainer),
    "SFTConfig": (environment, run, sft),
    **rl_checks.CHECKS,
}
"""The checks of each config class."""


def refusal(name: str, values: Any) -> Case | None:
    """The first case of a class that prime-rl refuses."""
    cases = (case for check in CHECKS.get(name, ()) for case in check(values))
    return next((case for case in cases if case[0]), None)
