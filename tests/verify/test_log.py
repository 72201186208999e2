"""Logs of real runs, and of runs made by hand: whole, in blocks, while they grow."""

import contextlib
import math
import re
from pathlib import Path
from random import Random

import pytest

from fp8tune.verify import steps as steps_module
from fp8tune.verify.evidence import Sign
from fp8tune.verify.lines import Unreadable
from fp8tune.verify.log import Reader, read
from fp8tune.verify.shapes import Text
from tests.each import each
from tests.verify.test_lines import STEP

LOGS = Path(__file__).parent.parent / "data" / "logs"
OUT_OF_MEMORY = Text(
    "out-of-memory",
    re.compile(r"OutOfMemoryError: .*allocate (?P<gib>[\d.]+) GiB"),
    (b"OutOfMemoryError",),
)

LAST_LINE = "\r 75%|# | 9/80 [0:01<0:01, 9it/s]\n{'train_runtime': '1', 'epoch': '4'}"

KEMPNERFORGE = ("kempnerforge", True, [1, 2, 3, 4], {"ac": 1, "checkpoint": 1})
TITAN = ("torchtitan", True, [1, 2, 3, 4], {"ac": 1})
APPLIED = [("asks", "asked", None), ("claims", "applied", None)]
SWAPPED = [("claims", "recipe", None), ("claims", "swapped", None)]
RUNS = {
    "kempnerforge-bf16": (*KEMPNERFORGE, []),
    "kempnerforge-fp8": (*KEMPNERFORGE, APPLIED),
    "kempnerforge-fp8_filtered": (*KEMPNERFORGE, APPLIED),
    "kempnerforge-nan": ("kempnerforge", False, [1, 2], {"ac": 1}, []),
    "torchtitan-bf16": (*TITAN, []),
    "torchtitan-fp8": (*TITAN, SWAPPED),
    "torchtitan-fp8_filtered": (*TITAN, SWAPPED),
    "transformers-bf16": ("transformers", True, [1, 2, 3, 4], {}, []),
    "transformers-fp8_bf16": ("transformers", True, [1, 2, 3, 4], {}, []),
    "transformers-fp8": (
        *("transformers", True, [1, 2, 3, 4], {}),
        [("proves", "printed-model", None)],
    ),
    "llama_factory-bf16": ("transformers", True, [1, 2, 3, 4], {}, []),
    "llama_factory-fp8": (
        *("llama_factory", True, [1, 2, 3, 4], {}),
        [("asks", "asked", None), ("claims", "enabled", None), ("denies", "off", None)],
    ),
    "made-prime_rl": (
        *("prime_rl", True, [0, 1], {"ac": 1, "compile": 1}),
        [("asks", "asked", None), ("proves", "replaced", 196)],
    ),
    "made-prime_rl_json": ("prime_rl", None, [0], {}, [("denies", "replaced", 0)]),
    "made-megatron": (
        *("megatron", True, [1, 2, 3], {}),
        [("asks", "asked", None), ("denies", "local", None)],
    ),
    "made-automodel": ("automodel", None, [0, 1], {}, [("denies", "converted", 0)]),
    "made-axolotl_deepspeed": (
        *("axolotl", True, [1, 2], {"starting": 3, "checkpoint": 1}),
        [("asks", "patched", None)],
    ),
    "made-torchtitan_ranks": ("torchtitan", True, [1, 2, 3, 3, 4], {}, []),
}


@each("name", RUNS)
def test_what_a_log_says(name):
    log = read(str(LOGS / f"{name}.log"))
    steps = [step for curve in log.starts for step in curve.step]
    events = dict(log.events)
    mentions = [(m.says, m.name, m.count) for m in log.mentions]
    assert (log.trainer, log.ended, steps, events, mentions) == RUNS[name]


CONVERTED = {
    name: int(match[1])
    for name in RUNS
    for match in re.finditer(
        "modules that torchao converted: ([0-9]+)",
        (LOGS / f"{name}.log").read_text(encoding="utf-8"),
    )
}


def test_conversion_that_a_log_proves_took_place():
    says = {name: {mention[0] for mention in RUNS[name][4]} for name in CONVERTED}
    assert len(says) == 12
    assert not [n for n in says if "proves" in says[n] and not CONVERTED[n]]
    assert not [n for n in says if "denies" in says[n] and CONVERTED[n]]


def curve_of(log, index=0):
    """The quantities of a curve that are logged."""
    names = steps_module.QUANTITIES
    columns = {name: list(getattr(log.starts[index], name)) for name in names}
    return {n: c for n, c in columns.items() if not all(map(math.isnan, c))}


def near(columns):
    """The same columns, up to rounding."""
    return {n: pytest.approx(column, nan_ok=True) for n, column in columns.items()}


def test_megatron_counts_samples_and_milliseconds():
    log = read(str(LOGS / "made-megatron.log"))
    assert curve_of(log) == near(
        {
            "step": [1, 2, 3],
            "tokens": [524288, 1048576, 1572864],
            "loss": [10.43863, 10.4379, math.nan],
            "grad_norm": [26.203, 26.101, 25.87],
            "learning_rate": [6.976744e-08, 1.395349e-07, 2.093023e-07],
            "tokens_per_second": [524288 / 19.1388, 128000, 128000],
            "step_s": [19.1388, 4.096, 4.096],
        }
    )


def test_lowest_rank_makes_the_curve_and_a_restart_a_new_one():
    log = read(str(LOGS / "made-torchtitan_ranks.log"), causes=[OUT_OF_MEMORY])
    assert [curve_of(log, n)["loss"] for n in (0, 1)] == [[9.9, 9.8, 9.7], [9.71, 9.6]]
    assert [curve.line for curve in log.starts] == [7, 14]
    assert curve_of(log)["tokens_per_second"] == [1024, 8192, 8192]
    assert log.ranks == {0, 1}
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert log.signs == [Sign("out-of-memory", 12, text, {"gib": "2.00"}, rank=1)]


@each("size", [1, 7, 100, 5000])
def test_blocks_of_any_size_say_the_same(size):
    for name in ("made-torchtitan_ranks", "transformers-fp8", "made-prime_rl_json"):
        path = LOGS / f"{name}.log"
        data = path.read_bytes()
        reader = Reader(str(path))
        for start in range(0, len(data), size):
            reader.feed(data[start : start + size])
        assert repr(reader.finish()) == repr(read(str(path)))


def test_of_a_growing_log_a_line_without_its_end_is_left_out(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("\n".join(STEP.format(step) for step in (1, 2, 3)))
    curves = [read(str(path), growing=growing).starts[0] for growing in (True, False)]
    assert [list(curve.step) for curve in curves] == [[1, 2], [1, 2, 3]]


def test_signs_are_counted_and_the_first_are_kept():
    reader = Reader(causes=[OUT_OF_MEMORY])
    line = b"3: torch.OutOfMemoryError: Tried to allocate 2.00 GiB\n"
    reader.feed(b"x\n" + line * 1000)
    log = reader.finish()
    assert log.sign_counts == {"out-of-memory": 1000}
    assert len(log.signs) == 40
    text = "torch.OutOfMemoryError: Tried to allocate 2.00 GiB"
    assert log.signs[0] == Sign("out-of-memory", 2, text, {"gib": "2.00"}, rank=3)


def test_long_curves_are_thinned(monkeypatch):
    monkeypatch.setattr(steps_module, "KEEP", 1000)
    odd = {4321: "nan", 7000: "inf"}
    reader = Reader()
    for step in range(20_000):
        loss = odd.get(step, f"{20 - step / 1000:.4f}")
        line = STEP.replace("loss=9.5{0}", f"loss={loss}").format(step)
        reader.feed(line.encode() + b"\n")
        if step == 12_000:
            reader.feed(b"[rank 0] INFO     Checkpoint committed: a (step=12000)\n")
    log = reader.finish()
    (curve,) = log.starts
    assert (curve.every, log.lines) == (32, 20_001)
    assert 500 <= len(curve) <= 1000
    assert curve.step[0] == 0
    assert curve.step[-1] == 19_999
    assert set(odd) <= set(curve.step)
    assert list(curve.step) == sorted(curve.step)
    assert log.events == {"checkpoint": 1}


def test_thinned_curve_is_of_one_rank(monkeypatch):
    monkeypatch.setattr(steps_module, "KEEP", 100)
    reader = Reader()
    for step in range(1000):
        for rank in (3, 1, 2, 0):
            line = STEP.replace("rank 0", f"rank {rank}").replace("loss=9", "loss={1}")
            reader.feed(line.format(step, rank).encode() + b"\n")
    (curve,) = reader.finish().starts
    assert {int(loss) for loss in curve.loss} == {0}
    assert 50 <= len(curve) <= 100
    assert curve.step[-1] == 999


@each(
    ("head", "end", "expected"),
    [
        ("Num update steps per epoch = 20", "", [5, 10, 15]),
        ("", LAST_LINE, [5, 10, 15]),
        ("", "", [math.nan] * 3),
        ("bar", "", [5, 10, 15]),
        ("Num update steps per epoch = " + "9" * 5000, "", [math.nan] * 3),
    ],
    ids=("said", "last line", "not known", "bar", "hostile"),
)
def test_steps_of_a_trainer_that_logs_epochs(head, end, expected):
    reader = Reader()
    reader.feed(head.encode() + b"\n")
    for step, epoch in ((5, "0.25"), (10, "0.5"), (15, "0.75")):
        if head == "bar":
            reader.feed(f" {step}%|#  | {step}/80 [00:01<00:01, 2.3s/it]\r".encode())
        reader.feed(f"{{'loss': '2.5', 'epoch': '{epoch}'}}\n".encode())
    reader.feed(end.encode())
    (curve,) = reader.finish().starts
    assert list(curve.step) == pytest.approx(expected, nan_ok=True)


def test_hostile_numbers():
    """They are more than floats or Python's own limits hold."""
    reader = Reader()
    many = "9" * 5000
    reader.feed(
        f"Building device mesh with parallelism: pp={many}, dp_replicate=1, "
        f"dp_shard=1, cp=1, tp=1\n{STEP.format(many)}\n{STEP.format(1)}\n"
        f"Replaced {many} linear layers with FP8 blockwise linear (skipped 1 by name, "
        f"0 by 128-divisibility)\n[rank {many}] x\nTraining complete: {many} steps, "
        f"{many} tokens\nStarting training: step={many}, max_steps={many}, "
        f"batch_size={many}, grad_accum={many}, world_size={many}\n"
        f"{{'loss': '{many}', 'epoch': '{many}'}}\n".encode()
    )
    log = reader.finish()
    assert log.settings["world_size"][:9] == "9" * 9
    assert [list(curve.step) for curve in log.starts] == [[math.inf], [1]]


def test_changed_logs_are_read_or_refused():
    random = Random(5)
    logs = [path.read_bytes() for path in LOGS.iterdir()]
    parts = (
        b"\r",
        b"\n",
        bytes(9),
        b"\x1b[31m",
        b"9" * 400,
        b"nan",
        b"{",
        b" 3: ",
        b'"',
    )
    for _ in range(200):
        data = bytearray(random.choice(logs))
        for _ in range(random.randrange(1, 60)):
            place = random.randrange(len(data) + 1)
            change = random.choice([*parts, random.randbytes(3), random.choice(logs)])
            data[place : place + random.randrange(20)] = change[:500]
        with contextlib.suppress(Unreadable):
            reader = Reader()
            for start in range(0, len(data), 999):
                reader.feed(bytes(data[start : start + 999]))
            assert reader.finish().lines <= data.count(b"\n") + 1
