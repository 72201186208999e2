"""What checks of prime-rl's values need that no condition can say.

Source: prime-rl 0.8.1.dev67, configs/orchestrator.py, inference.py and rl.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fp8tune.trainers.checks import Values


def fill(name: str, table: dict[str, Any]) -> None:
    """Fill in what follows from other values of a class, as its validators do."""
    if name == "InferenceConfig":
        apart = table["deployment"]["type"] == "disaggregated"
        if apart and "enable_expert_parallel" not in table["vllm"].own:
            table["vllm"]["enable_expert_parallel"] = True
    if name != "RLConfig":
        return
    nodes, server = table["deployment"], table["inference"]
    if nodes["type"] == "multi_node" and nodes["num_infer_nodes"] is None:
        nodes["num_infer_nodes"] = nodes_of(server["deployment"]) if server else 0
    if table["resume"] is not None:
        table["trainer"]["resume"] = table["orchestrator"]["resume"] = table["resume"]


def nodes_of(deployment: dict[str, Any]) -> int:
    """Return the nodes of one replica of inference."""
    if deployment["type"] != "disaggregated":
        return int(deployment.get("num_nodes", 1))
    counts = (
        deployment[f"{part}_nodes_per_replica"] * deployment[f"num_{part}_replicas"]
        for part in ("prefill", "decode")
    )
    return int(sum(counts))


def node_gpus(values: Values) -> int:
    """GPUs of the only node: for SFT the trainer's, for RL all."""
    table = values.values_of_file
    rest = 0 if "num_eval_gpus" in table else table["num_infer_gpus"]
    return int(table["num_train_gpus"] + rest)


def inference_gpus(values: Values) -> int:
    """GPUs of inference in an SFT file, by either name of the key."""
    nodes = values["deployment"]
    other = "num_infer_gpus" not in nodes.own and "num_eval_gpus" in nodes.own
    return int(nodes["num_eval_gpus" if other else "num_infer_gpus"])


def no_step_folder(values: Values) -> bool:
    """Whether a checkpoint's folder, if one is named, is not called step_N."""
    folder = values["dir"]
    if folder is None:
        return False
    return not re.fullmatch(r"step_\d+", folder.rstrip("/").rpartition("/")[2])


def names_server(values: Values) -> bool:
    """Whether the file says where another model than the policy is served."""
    return "base_url" in values.values_of_file.own  # type: ignore[attr-defined]


def _names(values: Values) -> Iterator[str]:
    """Yield the name of each source, empty where it has no environment."""
    for source in values["source"]:
        env = source["env"]
        taskset = env.get("taskset")
        seed = taskset.get("id", "") if isinstance(taskset, dict) else ""
        parts = [part for part in (env.get("id"), seed) if part]
        yield (source["name"] or "+".join(parts)) if parts else ""


def nameless_source(values: Values) -> int:
    """The number of the first source without an environment, 0 if there is none."""
    return next((n for n, name in enumerate(_names(values), 1) if not name), 0)


def repeated_sources(values: Values) -> str:
    """The names of all sources, empty if each has one of its own."""
    names = [*_names(values)]
    return ", ".join(names) if len(set(names)) < len(names) else ""


def elsewhere(values: Values) -> bool:
    """Whether trainer or orchestrator has a folder that is not that of the run."""
    name = values["run.dir"] or values["run.name"]
    folder = f"{values['output_dir'].rstrip('/')}/{name}" if name else ""
    parts = (values[part] for part in ("trainer", "orchestrator"))
    return any(
        "output_dir" in part.own and part["output_dir"].rstrip("/") != folder
        for part in parts
    )


DERIVED = {
    name.__name__: name
    for name in (
        *(node_gpus, inference_gpus, no_step_folder, names_server),
        *(nameless_source, repeated_sources, elsewhere),
    )
}
"""Names of conditions, by these functions."""
