"""How the values of ``[orchestrator]``, ``[inference]`` and whole RL files must fit.

Source: prime-rl 0.8.1.dev67, configs/orchestrator.py, inference.py,
algorithm.py and rl.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Values = Any
"""The values of one table: a ``Table`` with the tables inside it."""
Case = tuple[Any, ...]
"""Whether values are refused, the keys to blame, the reason, and maybe what to do."""

LAUNCHER = (
    *("CUDA_VISIBLE_DEVICES", "PRL_RUN_ID", "PRL_RUN_NAME", "WANDB_RUN_ID"),
    *("WANDB_SHARED_MODE", "WANDB_SHARED_LABEL", "WANDB_SHARED_PRIMARY"),
    "WANDB_SHARED_FINISHER",
)
"""Environment variables that only the launcher sets."""

SCORERS = (
    *("prefix-cache-scorer", "precise-prefix-cache-scorer", "queue-scorer"),
    *("kv-cache-utilization-scorer", "active-request-scorer", "load-aware-scorer"),
    *("running-requests-size-scorer", "token-load-scorer", "latency-scorer"),
    *("session-affinity-scorer", "lora-affinity-scorer"),
)
"""Scorers of the llm-d router."""

MAX_LORA_RANK = 512
"""The largest rank of LoRA that vLLM takes."""

NEEDS_SLURM = "several nodes need `[slurm]`"
NEEDS_ROUTER = "several nodes need a router"
THROUGH_FILES = "LoRA needs a weight broadcast through files"
NO_EXPERTS = "the llm-d router does not return routed experts"
FOR_BOTH = "set it above, for trainer and orchestrator"


def tp_divides(gpus: int) -> tuple[str, str]:
    """The key and the reason where vLLM cannot be split over the GPUs."""
    key = "inference.vllm.tensor_parallel_size"
    return key, f"vLLM's tensor parallelism must divide {gpus} GPUs"


def environment(c: Values) -> Iterator[Case]:
    """Variables that the launcher sets may not be set."""
    for key in ("env_vars", "prefill_env_vars", "decode_env_vars"):
        for name in c.get(key, ()):
            yield name in LAUNCHER, f"{key}.{name}", "only the launcher sets this"


def concurrency(c: Values) -> Iterator[Case]:
    """Bounds of the episodes in flight."""
    most = c["max_inflight"]
    for key in ("initial_inflight", "min_inflight"):
        above = None not in (most, c[key]) and c[key] > most
        yield above, f"{key} max_inflight", f"`{key}` is above `max_inflight`"


def sources(c: Values) -> Iterator[Case]:
    """Every source has an environment, and a name of its own."""
    names = []
    for number, source in enumerate(c["source"], 1):
        env = source["env"]
        taskset = env.get("taskset")
        seed = taskset.get("id", "") if isinstance(taskset, dict) else ""
        reason = f"source {number} has no environment"
        hint = 'write `env = { taskset = { id = "..." } }`'
        yield not (seed or env.get("id")), "source", reason, hint
        parts = filter(None, (env.get("id") if seed else "", seed or env.get("id")))
        names.append(source["name"] or "+".join(parts))
    yield "agg" in names, "source", 'the name "agg" is used for metrics'
    twice = len(set(names)) < len(names)
    yield twice, "source", f"sources have the same name: {', '.join(names)}"


def eval_sources(c: Values) -> Iterator[Case]:
    """Evals need something to evaluate on."""
    yield not c["source"], "source", "evals need at least one source"
    yield from sources(c)


def algorithm(c: Values) -> Iterator[Case]:
    """On-policy algorithms sample from the policy, sft from another model."""
    policy = c["sampling"]["source"] == "policy"
    where = "another model" if policy else "the policy"
    reason = f"the algorithm {c['type']} must sample from {where}"
    yield policy == (c["type"] == "sft"), "sampling.source type", reason


def frozen_model(c: Values) -> Iterator[Case]:
    """prime-rl starts no server for another model."""
    missing = "base_url" not in c.own
    yield missing, "name", "another model than the policy needs `base_url`"


def echo_roles(c: Values) -> Iterator[Case]:
    """ECHO trains on the text of some role."""
    roles = ("system", "user", "assistant", "tool")
    yield all(c[role] is None for role in roles), "tool", "echo needs a role"


def pools(c: Values) -> Iterator[Case]:
    """Pools of tasks differ in their thresholds, and one has a weight."""
    yield not c["pools"], "pools", "at least one pool is needed"
    given = [pool for pool in c["pools"].values() if pool]
    bounds = {pool["threshold"] for pool in given}
    yield len(bounds) < len(given), "pools", "two pools have the same threshold"
    idle = given and not any(pool["weight"] > 0 for pool in given)
    yield idle, "pools", "at least one pool needs a weight above 0"


def gate(c: Values) -> Iterator[Case]:
    """The bounds of a gate are in order."""
    reason = "`reject_min` is above `reject_max`"
    yield c["reject_min"] > c["reject_max"], "reject_min reject_max", reason


def orchestrator(c: Values) -> Iterator[Case]:
    """``[orchestrator]``: batches of samples or tokens."""
    group, rows, tokens = c["group_size"], c["batch_size"], c["token_batch_size"]
    reason = "`batch_size` and `token_batch_size` exclude each other"
    yield None not in (rows, tokens), "token_batch_size batch_size", reason
    if tokens is None:
        rows = rows or 128
        reason = f"the batch size ({rows}) must be a multiple of `group_size` ({group})"
        yield rows % group, "group_size batch_size", reason
    for name in ("max_inflight", "initial_inflight"):
        value = c["concurrency"][name]
        few = value is not None and value < group
        keys = f"concurrency.{name} group_size"
        yield few, keys, f"`{name}` is below `group_size` ({group})"


def shared_wandb(c: Values) -> Iterator[Case]:
    """The shared W&B run needs a connection."""
    yield c["offline"], "offline", "the shared W&B run cannot be offline"


def engine(c: Values) -> Iterator[Case]:
    """``[inference.vllm]``: ranks of LoRA have a limit."""
    rank = c["max_lora_rank"] or 0
    reason = f"vLLM's largest rank is {MAX_LORA_RANK}"
    yield rank > MAX_LORA_RANK, "max_lora_rank", reason


def kv_cache(c: Values) -> Iterator[Case]:
    """An offloaded KV cache is held in memory first."""
    reason = "the KV cache needs a tier in host memory"
    yield c["cpu"] is None, "disk type", reason


def scorers(c: Values) -> Iterator[Case]:
    """Only llm-d's own scorers."""
    for key in ("scorers", "prefill_scorer_overrides", "decode_scorer_overrides"):
        for name in c[key]:
            yield name not in SCORERS, f"{key}.{name}", "llm-d has no such scorer"


def inference(c: Values) -> Iterator[Case]:
    """``[inference]``: router, nodes, KV cache."""
    nodes, router, vllm = c["deployment"], c["router"], c["vllm"]
    single = nodes["type"] == "single_node"
    yield not single and c["slurm"] is None, "deployment.type", NEEDS_SLURM
    llm_d = router is not None and router["type"] == "llm-d"
    keys = "vllm.enable_return_routed_experts router.type"
    yield llm_d and vllm["enable_return_routed_experts"], keys, NO_EXPERTS
    reason = "the llm-d router needs several nodes"
    yield llm_d and single, "router.type", reason
    yield router is None and not single, "router deployment.type", NEEDS_ROUTER
    off = c["kv_cache_offload"] is not None and vllm["enable_prefix_caching"] is False
    keys = "vllm.enable_prefix_caching kv_cache_offload"
    yield off, keys, "an offloaded KV cache needs prefix caching"
    if nodes["type"] == "disaggregated":
        if "enable_expert_parallel" not in vllm.own:
            vllm["enable_expert_parallel"] = True
        tp = vllm["tensor_parallel_size"]
        yield not tp, *tp_divides(nodes["gpus_per_node"])


def rl_nodes(c: Values) -> Iterator[Case]:
    """Which nodes an RL run has, and what inference needs."""
    nodes, server = c["deployment"], c["inference"]
    if nodes["type"] != "multi_node":
        return
    wanted = 0 if server is None else nodes_of(server["deployment"])
    given = nodes["num_infer_nodes"]
    if given is None:
        nodes["num_infer_nodes"] = given = wanted
    several = server is not None and server["deployment"]["type"] == "multi_node"
    keys = "deployment.num_infer_nodes inference.deployment.num_nodes"
    reason = f"inference runs on {wanted} nodes, not on {given}"
    yield several and given != wanted, keys, reason
    yield c["slurm"] is None, "deployment.type", NEEDS_SLURM
    keys = "deployment.num_infer_nodes inference"
    yield given > 0 and server is None, keys, "nodes for inference need `[inference]`"
    yield given == 0 and server is not None, keys, "`[inference]` needs a node"
    real = c["trainer"]["data"]["fake"] is None
    reason = "without inference the trainer needs fake data"
    yield given == 0 and real, keys, reason, "add `[trainer.data.fake]`"


def nodes_of(deployment: Values) -> int:
    """Nodes of one replica of inference."""
    if deployment["type"] != "disaggregated":
        return int(deployment.get("num_nodes", 1))
    counts = (
        deployment[f"{part}_nodes_per_replica"] * deployment[f"num_{part}_replicas"]
        for part in ("prefill", "decode")
    )
    return int(sum(counts))


def rl_transfer(c: Values) -> Iterator[Case]:
    """Checks of the weight broadcast before it is set up."""
    nodes, broadcast = c["deployment"], c["weight_broadcast"]
    if nodes["type"] == "single_node":
        used = nodes["num_train_gpus"] + nodes["num_infer_gpus"]
        nccl = c["trainer"]["weight_broadcast"]["type"] == "nccl"
        keys = "deployment.num_train_gpus deployment.num_infer_gpus"
        yield nccl and used < 2, keys, "a broadcast by NCCL needs two GPUs"
    quantized = (broadcast or {}).get("quantize_in_weight_transfer")
    key = "weight_broadcast.quantize_in_weight_transfer"
    reason = "the quantized transfer needs `[inference]`"
    yield quantized and c["inference"] is None, key, reason
    other = c["trainer"]["model"]["impl"] != "custom"
    reason = 'the quantized transfer needs `trainer.model.impl = "custom"`'
    yield quantized and other, f"{key} trainer.model.impl", reason


def rl_folders(c: Values) -> Iterator[Case]:
    """The folders of trainer and orchestrator are those of the run."""
    name = c["run"]["dir"] or c["run"]["name"]
    folder = f"{c['output_dir'].rstrip('/')}/{name}" if name else ""
    for part in ("trainer", "orchestrator"):
        own = c[part]
        other = "output_dir" in own.own and own["output_dir"].rstrip("/") != folder
        reason = "the folder follows from `output_dir` and `run.name`"
        yield other, f"{part}.output_dir", reason


def rl_shared(c: Values) -> Iterator[Case]:
    """What trainer, orchestrator and inference must have in common."""
    one, two, server = c["trainer"], c["orchestrator"], c["inference"]
    if c["resume"] is not None:
        one["resume"] = two["resume"] = c["resume"]
    first, second = one["model"]["name"], two["model"]["name"]
    keys = "trainer.model.name orchestrator.model.name"
    if server is not None:
        first = server["vllm"]["model"]
        keys = "inference.vllm.model orchestrator.model.name"
    known = server is None and first.startswith("Jackmin108/")
    different = first != second and not known
    yield different, keys, f"two models: {first} and {second}", "set `[model] name`"
    templates = {part["tokenizer"]["chat_template"] for part in (one, two)}
    if server is not None:
        templates.add(server["vllm"]["chat_template"])
    keys = "trainer.tokenizer.chat_template orchestrator.tokenizer.chat_template"
    keys = f"{keys} inference.vllm.chat_template"
    yield len(templates) > 1, keys, "the chat templates differ", FOR_BOTH
    steps = one["max_steps"] != two["max_steps"]
    keys = "trainer.max_steps orchestrator.max_steps"
    reason = "trainer and orchestrator need the same `max_steps`"
    yield steps, keys, reason, FOR_BOTH
    takes, makes = one["model"]["seq_len"], two["seq_len"]
    keys = "trainer.model.seq_len orchestrator.seq_len seq_len"
    reason = f"the trainer takes {takes} tokens, but the orchestrator makes {makes}"
    yield takes < makes, keys, reason, FOR_BOTH
    keys = "trainer.resume orchestrator.resume"
    other = one["resume"] != two["resume"]
    yield other, keys, "trainer and orchestrator resume differently", FOR_BOTH
    yield from _same(one, two, "ckpt", "interval")
    yield from _same(one["monitors"], two["monitors"], "monitors.wandb", "project")


def _same(one: Values, two: Values, where: str, key: str) -> Iterator[Case]:
    """A table is there for trainer and orchestrator, with one value of a key."""
    first, second = (part[where.rpartition(".")[2]] for part in (one, two))
    keys = f"trainer.{where} orchestrator.{where}"
    reason = f"`[{where}]` is there for one of trainer and orchestrator"
    yield (first is None) != (second is None), keys, reason, FOR_BOTH
    apart = None not in (first, second) and first[key] != second[key]
    keys = f"trainer.{where}.{key} orchestrator.{where}.{key}"
    yield apart, keys, f"`{key}` differs in trainer and orchestrator", FOR_BOTH


def rl_broadcast(c: Values) -> Iterator[Case]:
    """One kind of weight broadcast and of rollout transport for all."""
    one, two, server = c["trainer"], c["orchestrator"], c["inference"]
    lora, broadcast = one["model"]["lora"], c["weight_broadcast"] or {}
    kind = "filesystem" if lora is not None or server is None else "nccl"
    kind = broadcast.get("type", kind)
    keys = "weight_broadcast.type trainer.model.lora"
    yield kind != "filesystem" and lora is not None, keys, THROUGH_FILES
    transports = [part["rollout_transport"]["type"] for part in (one, two)]
    keys = "trainer.rollout_transport.type orchestrator.rollout_transport.type"
    reason = "trainer and orchestrator need the same transport of rollouts"
    yield transports[0] != transports[1], keys, reason, FOR_BOTH
    balanced = server is not None and server["vllm"]["enable_eplb"]
    quantized = kind == "nccl" and broadcast.get("quantize_in_weight_transfer")
    reason = "EPLB needs the quantized weight broadcast by NCCL"
    yield balanced and not quantized, "inference.vllm.enable_eplb", reason
    other = two["model"]["lora"]
    for key in ("rank", "alpha"):
        both = None not in (lora, other) and other[key] is not None
        keys = f"orchestrator.model.lora.{key} trainer.model.lora.{key}"
        reason = f"`{key}` of the two adapters differs"
        yield both and other[key] != lora[key], keys, reason


def rl_experts(c: Values) -> Iterator[Case]:
    """Router replay, and what it excludes."""
    server, replay = c["inference"], c["trainer"]["enable_router_replay"]
    if server is None:
        return
    router, cache = server["router"], server["kv_cache_offload"]
    llm_d = router is not None and router["type"] == "llm-d"
    keys = "trainer.enable_router_replay inference.router.type"
    yield replay and llm_d, keys, NO_EXPERTS
    several = c["deployment"]["type"] == "multi_node"
    yield several and router is None, "inference.router", NEEDS_ROUTER
    keys = "trainer.enable_router_replay inference.kv_cache_offload"
    reason = "router replay excludes an offloaded KV cache"
    yield replay and cache is not None, keys, reason
    store = cache is not None and cache["type"] == "mooncake" and c["slurm"] is None
    yield store, "inference.kv_cache_offload.type", "Mooncake needs `[slurm]`"


def node_groups(nodes: Values) -> Iterator[Case]:
    """Groups of nodes that share one copy of the weights."""
    count, group = nodes.get("num_train_nodes"), nodes.get("nodes_per_fsdp_group")
    if group is not None:
        keys = "deployment.nodes_per_fsdp_group deployment.num_train_nodes"
        reason = f"{count} nodes are not a multiple of {group}"
        yield not group or count % group, keys, reason


def rl_deployment(c: Values) -> Iterator[Case]:
    """How many ranks inference has on its GPUs."""
    nodes, server = c["deployment"], c["inference"]
    yield from node_groups(nodes)
    if server is None:
        return
    vllm = server["vllm"]
    tp, ranks = vllm["tensor_parallel_size"], vllm["data_parallel_size"]
    if nodes["type"] == "single_node":
        gpus = nodes["num_infer_gpus"]
        yield gpus != ranks * tp and (not tp or gpus % tp), *tp_divides(gpus)
    elif server["deployment"]["type"] == "disaggregated":
        wanted = nodes_of(server["deployment"])
        wrong = nodes["num_infer_nodes"] != wanted
        key = "deployment.num_infer_nodes"
        yield wrong, key, f"inference runs on {wanted} nodes"
    elif vllm["enable_expert_parallel"]:
        gpus = nodes["gpus_per_node"]
        yield not tp or gpus % tp, *tp_divides(gpus)
        whole = nodes["num_infer_nodes"] * gpus
        keys = "inference.vllm.data_parallel_size inference.vllm.tensor_parallel_size"
        reason = f"data times tensor parallelism must be {whole} GPUs"
        yield ranks * tp != whole, keys, reason
        wrong = vllm["data_parallel_size_local"] not in (None, gpus // tp)
        key = "inference.vllm.data_parallel_size_local"
        yield wrong, key, f"it must be {gpus // tp}, the ranks of a node"


ALGORITHMS = (
    *("GRPO", "Echo", "MaxRL", "RAE", "HierarchicalGRPO", "OPD", "OPSD", "SFT"),
)
CHECKS: dict[str, tuple[Callable[[Values], Iterator[Case]], ...]] = {
    **{f"{name}AlgoConfig": (algorithm,) for name in ALGORITHMS},
    "FrozenModelConfig": (frozen_model,),
    "EchoRolesConfig": (echo_roles,),
    "DifficultyPoolSamplerConfig": (pools,),
    "AdvRangeGateConfig": (gate,),
    "ConcurrencyConfig": (concurrency,),
    "TrainConfig": (sources,),
    "EvalConfig": (eval_sources,),
    "EvalsEvalConfig": (eval_sources,),
    "OrchestratorConfig": (environment, orchestrator),
    "SharedWandbConfig": (shared_wandb,),
    "VllmConfig": (engine,),
    "LlmdRouterConfig": (scorers,),
    "NativeKVCacheOffloadConfig": (kv_cache,),
    "MooncakeKVCacheOffloadConfig": (kv_cache,),
    "DisaggregatedInferenceDeploymentConfig": (environment,),
    "InferenceConfig": (environment, inference),
    "RLConfig": (
        *(environment, rl_nodes, rl_transfer, rl_folders, rl_shared),
        *(rl_broadcast, rl_experts, rl_deployment),
    ),
}
"""The checks of each config class, in an order in which each finds what it reads."""
