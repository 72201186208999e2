"""Draw configs to compare verdicts on: those of recorded cases, with changes.

A config starts from one that was judged, mostly an accepted one. Then a few things
change: keys get what another recorded config has for them, which are mistakes of people
too, values that the schema lists, or of other types; keys are misspelt, moved and
removed. So each release is asked what earlier ones were, and about keys that it adds.
"""

from __future__ import annotations

import copy
import json
import random
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import tomlkit
import yaml

from fp8tune.formats import parse
from fp8tune.formats.document import InvalidText
from fp8tune.trainers.trainer import trainer
from tests.support.verdicts import TEXTS, Case

Table = dict[str, Any]
Path = tuple[str, ...]
Listed = tuple[Path, Sequence[Any]]
"""A key, and the values that the schema lists for it."""

ODD: tuple[Any, ...] = (0, 1, -1, 2, 3, 8, 16, 0.5, 2.0, 1e30, True, False, None)
ODD += ("", "2", "x", "true", "none", "fp8", "FP8", [], [1], ["a"], {}, {"a": 1})
"""Values that are tried for any key."""

OF_CASE = ("training", "deepspeed")
"""Tables of a case that stand beside its text."""

ELSEWHERE = {
    "axolotl": """adapter attn_implementation capabilities context_parallel_size
        dataset_processes datasets deepcompile deepspeed env_capabilities
        expert_parallel_size fsdp_final_state_dict_type is_preprocess local_rank
        lr_groups merge_lora optim_args plugins pretraining_dataset roles_to_train
        sequence_parallel_degree tensor_parallel_size test_datasets
        tokenizer_use_mistral_common trainer_cls unfrozen_parameters use_glm_dsa_kernels
        use_ray world_size""",
    "llamafactory": """accelerator_config data_seed ddp_backend debug deepspeed do_train
        fp16_backend fp8_backend framework fsdp fsdp_config fsdp_min_num_params
        full_determinism half_precision_backend jit_mode_eval local_rank log_level
        log_level_replica logging_dir lr_scheduler_kwargs mixture_of_depths
        mp_parameters new_special_tokens_config no_cuda optim_args output_dir
        parallelism_config past_index project push_to_hub_token ray_init_kwargs
        report_to resume_from_checkpoint seed sglang_config tf32 torch_compile_backend
        torch_compile_mode torchdynamo tpu_num_cores trackio_space_id use_cpu use_ipex
        use_kt use_mps_device use_unsloth vllm_config xpu_backend""",
}
"""Keys whose values are looked up on the machine, or that belong to other programs."""


def configs(
    name: str, recorded: Sequence[Case], count: int, seed: int, release: str = ""
) -> Iterator[Case]:
    """Yield cases without verdicts; for a release if one is given."""
    dice = random.Random(f"{name} {seed}")  # noqa: S311
    starts = [case for case in recorded if accepted(case)]
    for number in range(count):
        start = dice.choice(starts if dice.random() < 0.75 else recorded)
        kept = ("world_size", "world", "kind", "program", "version", *OF_CASE)
        case = {key: copy.deepcopy(start[key]) for key in kept if key in start}
        if release and "version" in case:
            case["version"] = release
        tables = _tables(name, start)
        source = _Source(name, case, recorded)
        for size in {"world_size", "world"} & {*case} if dice.random() < 0.3 else ():
            case[size] = dice.choice(source.others)[size]
        for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3))):
            dice.choice(_CHANGES)(tables, dice, source)
        case |= {key: tables[key] for key in OF_CASE if key in tables}
        field, form = TEXTS[name]
        text = _WRITERS[form](tables[field])
        yield {"id": f"{seed}-{number}", **case, field: text}


def overridden(recorded: Sequence[Case], count: int, seed: int) -> Iterator[Case]:
    """Yield accepted cases of KempnerForge with arguments, most of them overrides."""
    dice = random.Random(f"overridden {seed}")  # noqa: S311
    starts = [case for case in recorded if accepted(case)]
    for number in range(count):
        start = dice.choice(starts)
        keys = _Source("kempnerforge", start, recorded)
        words: list[str] = []
        for _ in range(dice.choice((1, 1, 2, 3))):
            name = ".".join(dice.choice(keys.schema)[0])
            others = name.partition(".")[0], name.split(".")[-1], f"{name}.a"
            name = dice.choice((*[name] * 27, *others))
            value = dice.choice((*ODD, (0.9, 0.95), (1,), ("text", "image")))
            text = value if isinstance(value, str) else repr(value)
            words += dice.choice(
                (*[[f"--{name}={text}"]] * 18, [f"--{name}"], [f"--{name}", text])
            )
        sized = {key: start[key] for key in ("world_size", "toml")}
        yield {"id": f"{seed}-{number}", **sized, "arguments": words}


def accepted(case: Case) -> bool:
    """Whether the trainer accepted the config of a recorded case."""
    said = [case, *case.get("verdicts", ())]
    failed = any(each.get("error") or each.get("failure") for each in said)
    return not failed and case.get("verdict") != "reject"


def _tables(name: str, case: Case) -> Table:
    """Return the tables of a case: that of its text, and those beside it."""
    field, form = TEXTS[name]
    beside = {
        k: copy.deepcopy(case[k]) for k in OF_CASE if isinstance(case.get(k), dict)
    }
    return {field: _READERS[form](case[field]), **beside}


class _Source:
    """What changes of a config draw on: other cases, and the keys of the schema."""

    def __init__(self, name: str, case: Case, recorded: Sequence[Case]) -> None:
        self.name, self.case, self.recorded = name, case, recorded

    @property
    def others(self) -> list[Case]:
        """The recorded cases of the same kind."""
        kind = self.case.get("kind")
        return [case for case in self.recorded if case.get("kind") == kind]

    @property
    def schema(self) -> list[Listed]:
        """The keys of the release, and the values that are listed for them."""
        release = self.case.get("version", "")
        if kind := self.case.get("kind"):
            release = f"{trainer(self.name).version.rpartition('.')[0]}.{kind}"
        return _schema(self.name, release)


@cache
def _schema(name: str, release: str) -> list[Listed]:
    known = trainer(f"{name}=={release}" if release else name)
    apart, bash = ELSEWHERE.get(name, "").split(), TEXTS[name][1] == "bash"
    return [
        (tuple((key.replace("_", "-") if bash else key).split(".")), spec.allowed or ())
        for key, spec in known.schema.dotted_keys()
        if key.split(".")[0] not in apart and "Any" not in spec.type
    ]


def _paths(table: Table, above: Path = ()) -> Iterator[Path]:
    """Yield the paths of all keys."""
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _paths(value, (*above, key))


def _inner(table: Table) -> list[Path]:
    """Return the paths of the keys within the files of a case."""
    return [path for path in _paths(table) if len(path) > 1]


def _get(table: Any, path: Path) -> Any:
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    return table


def _set(table: Table, path: Path, value: Any) -> None:
    """Set a key; a table is made where there is none, and nothing goes for it."""
    for key in path[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            return
    table[path[-1]] = copy.deepcopy(value)


def _take(tables: Table, dice: random.Random, source: _Source) -> None:
    """Set some keys as another case has them."""
    other = _tables(source.name, dice.choice(source.others))
    paths = [p for p in _inner(other) if p[0] in tables]
    different = [p for p in paths if _get(other, p) != _get(tables, p)]
    for path in dice.sample(different, min(len(different), dice.choice((1, 2, 4, 8)))):
        _set(tables, path, _get(other, path))


def _list(tables: Table, dice: random.Random, source: _Source) -> None:
    """Set a key of the schema to a value that is listed for it, or to another."""
    for path, listed in dice.sample(source.schema, min(len(source.schema), 1)):
        value = dice.choice((*listed, *listed, *ODD))
        _set(tables, (TEXTS[source.name][0], *path), value)


def _odd(tables: Table, dice: random.Random, _: _Source) -> None:
    if paths := _inner(tables):
        _set(tables, dice.choice(paths), dice.choice(ODD))


def _drop(tables: Table, dice: random.Random, _: _Source) -> None:
    if paths := _inner(tables):
        *above, key = dice.choice(paths)
        del _get(tables, tuple(above))[key]


def _rename(tables: Table, dice: random.Random, _: _Source) -> None:
    """Misspell a key."""
    if paths := _inner(tables):
        *above, key = dice.choice(paths)
        table, at = _get(tables, tuple(above)), dice.randrange(len(key))
        table[key[:at] + dice.choice(("", "_", "e")) + key[at + 1 :]] = table.pop(key)


def _move(tables: Table, dice: random.Random, _: _Source) -> None:
    """Write a key into another table too."""
    paths = _inner(tables)
    places = [path for path in _paths(tables) if isinstance(_get(tables, path), dict)]
    if paths:
        path = dice.choice(paths)
        _set(tables, (*dice.choice(places), path[-1]), _get(tables, path))


_CHANGES = (*[_take] * 7, _list, _list, _odd, _odd, _drop, _rename, _move)


def _plain(value: Any) -> Any:
    """Return a value without what TOML cannot say."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _hjson(text: str) -> Table:
    """Return what DeepSpeed reads, nothing where it reads nothing."""
    try:
        return dict(parse(text.encode(), "x.json").values)
    except InvalidText:
        return {}


def _flags(words: list[str]) -> Table:
    """Return arguments by flag; those without a value are ``True``."""
    flags: Table = {}
    for word in words:
        if word.startswith("--"):
            flag = word[2:]
            flags[flag] = True
        elif flags[flag] is True:
            flags[flag] = word
        else:
            flags[flag] += f" {word}"
    return flags


def words_of(flags: Table) -> list[str]:
    """Return flags as arguments; those that are ``None`` or ``False`` are not given."""
    words = []
    for name, value in flags.items():
        if value is not None and value is not False:
            words.append(f"--{name}")
            words += [] if value is True else str(value).split()
    return words


_READERS: dict[str, Callable[[Any], Table]] = {
    "toml": tomllib.loads,
    "yaml": lambda text: yaml.safe_load(text) or {},
    "json": _hjson,
    "bash": _flags,
}
_WRITERS: dict[str, Callable[[Table], Any]] = {
    "toml": lambda table: tomlkit.dumps(_plain(table)),
    "yaml": lambda table: yaml.safe_dump(table, sort_keys=False),
    "json": lambda table: json.dumps(table, indent=2),
    "bash": words_of,
}
