"""Read how many processes a command starts: Slurm's options and torchrun's.

Options of a job stand in ``#SBATCH`` lines, those of a step behind ``srun``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

MOST = 10**7
"""No larger number of nodes, tasks or GPUs is read."""

TORCHRUN = frozenset(("torchrun", "torch.distributed.run", "torch.distributed.launch"))
"""Programs and modules that start one process for each GPU."""

_SUBMITS = re.compile(r"\bsbatch\b.*<<|<<.*\bsbatch\b")
"""A line behind which a job stands as a here-document."""

_SHORT = {
    "-N": "nodes",
    "-n": "ntasks",
    "-G": "gpus",
    "-C": "constraint",
    "-D": "chdir",
}
_OPTIONS = frozenset(
    (
        *_SHORT.values(),
        "ntasks-per-node",
        "gpus-per-node",
        "gpus-per-task",
        "gres",
        "job-name",
    )
)
"""The options of ``sbatch`` and ``srun`` that are read."""


def sbatch(text: str) -> dict[str, str]:
    """Return the options of the ``#SBATCH`` lines, which end at the first command.

    Those of the last job that the script submits as a here-document, if it does.
    """
    found: dict[str, str] = {}
    is_head = True
    for line in text.split("\n"):
        stripped = line.strip()
        if is_head and line.lstrip("\t").startswith("#SBATCH"):
            try:
                found |= _named(shlex.split(stripped[len("#SBATCH") :], comments=True))
            except ValueError:  # an unclosed quote
                continue
        elif stripped and not stripped.startswith("#"):
            is_head = bool(_SUBMITS.search(line))
            found = {} if is_head else found
    return found


def options_of(words: list[str]) -> dict[str, str]:
    """Return the options of ``sbatch`` and ``srun`` in a command."""
    names = [word.rpartition("/")[2] for word in words]
    starters = [names.index(name) for name in ("sbatch", "srun") if name in names]
    return _named(words[min(starters) + 1 :]) if starters else {}


def _named(words: list[str]) -> dict[str, str]:
    """Return the options among words, by their long names."""
    found = {}
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word[:2] in _SHORT and not word.startswith("--"):
            name, equals, value = _SHORT[word[:2]], word[2:], word[2:].lstrip("=")
        elif name.startswith("--"):
            name = name[2:]
        else:
            continue
        if name in _OPTIONS:
            following = words[number + 1] if number + 1 < len(words) else ""
            found[name] = value if equals else following
    return found


def variables(options: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Slurm sets for a job, as far as its options say."""
    found = {
        "SLURM_NNODES": options.get("nodes", ""),
        "SLURM_JOB_NUM_NODES": options.get("nodes", ""),
        "SLURM_NTASKS": str(tasks(options) or "") if says_tasks(options) else "",
        "SLURM_NTASKS_PER_NODE": options.get("ntasks-per-node", ""),
        "SLURM_GPUS_PER_NODE": options.get("gpus-per-node", ""),
        "SLURM_GPUS_ON_NODE": str(gpus_per_node(options) or ""),
        "SLURM_JOB_NAME": options.get("job-name", ""),
    }
    return {name: value for name, value in found.items() if value}


def number_of(value: str) -> int:
    """Return a number of nodes, tasks or GPUs, 0 if it is not a number."""
    digits = value.isascii() and value.isdigit() and len(value) < 9
    return int(value) if digits and int(value) <= MOST else 0


def tasks(options: Mapping[str, str]) -> int:
    """Return how many tasks a job step has, 0 if unknown."""
    if "ntasks" in options:
        return number_of(options["ntasks"])
    nodes = number_of(options.get("nodes", "1"))
    return nodes * number_of(options.get("ntasks-per-node", "1"))


def says_tasks(options: Mapping[str, str]) -> bool:
    """Return whether options say how many tasks there are."""
    return "ntasks" in options or "ntasks-per-node" in options


def gpus_per_node(options: Mapping[str, str]) -> int:
    """Return the GPUs of a node, 0 if unknown."""
    if "gpus-per-node" in options:
        return number_of(options["gpus-per-node"].rpartition(":")[2])
    for entry in options.get("gres", "").split(","):
        name, *rest = entry.removeprefix("gres/").split("(")[0].split(":")
        if name == "gpu":
            return number_of(rest[-1]) if rest and rest[-1].isdigit() else 1
    if "gpus-per-task" in options:
        each = number_of(options["gpus-per-task"].rpartition(":")[2])
        return each * number_of(options.get("ntasks-per-node", ""))
    total = number_of(options.get("gpus", "").rpartition(":")[2])
    nodes = number_of(options.get("nodes", "1"))
    return total // nodes if nodes and total % nodes == 0 else 0


def _by_torchrun(words: list[str], per_node: int) -> int:
    """Return the number of processes that ``torchrun`` starts, 0 if unknown."""
    found = {"nnodes": "1", "nproc-per-node": "1"}
    for number, text in enumerate(words):
        name, equals, value = text.partition("=")
        name = name.lstrip("-").replace("_", "-")
        if name in found and text.startswith("--"):
            following = words[number + 1] if number + 1 < len(words) else ""
            found[name] = value if equals else following
    if found["nproc-per-node"] in ("gpu", "auto"):
        found["nproc-per-node"] = str(per_node)
    return number_of(found["nnodes"]) * number_of(found["nproc-per-node"])


def processes(words: list[str], options: Mapping[str, str]) -> int:
    """Return how many processes a command starts, 0 if unknown.

    ``words`` are those before the program, ``options`` those of the job and its step.
    """
    names = [word.rpartition("/")[2] for word in words]
    if not TORCHRUN.isdisjoint(names):
        return _by_torchrun(words, gpus_per_node(options))
    if not options:  # a step of an unknown job
        return 0
    alone = "srun" not in names and not says_tasks(options)
    return 1 if alone else tasks(options)
