"""Which cause comes first, what follows from it, and which fix it has."""

from pathlib import Path

import pytest

from fp8tune.config.reader import read_config
from fp8tune.job import Target
from fp8tune.verify import causes
from fp8tune.verify.answer import Answer
from fp8tune.verify.cause import causes as read_causes
from fp8tune.verify.cause import texts
from fp8tune.verify.diagnosis import data
from fp8tune.verify.figures import Figures
from fp8tune.verify.log import read
from fp8tune.verify.run import changed
from tests.each import each

KNOWN = read_causes()
NONE = Figures([], [])
STEP = (
    "[rank 0] INFO     [step {}] loss={} | lr=3.00e-05 | grad_norm=1.2 | "
    "tok/s=1,625 | mfu=53.8% | mem=71.2/140GB | step_time=1.25s"
)
NCCL = (
    "[rank3]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, "
    "NumelIn=4, Timeout(ms)=600000) ran for 600060 milliseconds before timing out."
)
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
OOM = (
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free. Of the "
    "allocated memory 70.02 GiB is allocated by PyTorch, and {} is reserved by "
    "PyTorch but unallocated."
)
NAN = "[rank 0] WARNING  NaN/Inf loss at step {0} (consecutive={0}, total={0})"


def steps(*losses):
    return [STEP.format(number, loss) for number, loss in enumerate(losses, 1)]


@pytest.fixture
def told(tmp_path):
    """The causes of a log of these lines: each with the one that it follows from."""

    def diagnosed(lines, config=None):
        path = tmp_path / "run.log"
        path.write_text("\n".join([*lines, ""]))
        log = read(str(path), causes=texts())
        return causes.diagnose([log], [], config)

    return diagnosed


@pytest.fixture
def config(tmp_path):
    def written(text):
        path = tmp_path / "train.toml"
        path.write_text(text)
        return read_config(str(path), Target())

    return written


RUNS = {
    "a traceback of rank 1 comes before the time-out of rank 3": (
        [
            *steps(9.0, 8.9),
            "[rank1]: Traceback (most recent call last):",
            "[rank1]: RuntimeError: The size of tensor a must match tensor b",
            NCCL,
            CHILD,
        ],
        [
            ("unknown-exception", ""),
            ("nccl-timeout", "unknown-exception"),
            ("child-failed", "unknown-exception"),
        ],
    ),
    "a known error and the unknown ones that follow": (
        [
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            "[rank0]: RuntimeError: CUDA error: out of memory",
            "[rank2]: torch.distributed.DistBackendError: broken",
            CHILD,
        ],
        [
            ("out-of-memory", ""),
            ("unknown-exception", "out-of-memory"),
            ("child-failed", "out-of-memory"),
        ],
    ),
    "NCCL finds no memory left on the GPU": (
        [
            "[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp"
            ":94, unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
            "[rank0]: Cuda failure 2 'out of memory'",
        ],
        [("out-of-memory", ""), ("nccl-failure", "out-of-memory")],
    ),
    "a rank that fails after another one has seen it leave": (
        [
            "[rank3]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp"
            ":94, remote process exited or there was a network error",
            "[rank1]: ValueError: the shard is empty",
        ],
        [("unknown-exception", ""), ("peer-lost", "unknown-exception")],
    ),
    "lspci is missing in the container": (
        [
            *steps(9.0),
            "WARNING - Error running lspci: [Errno 2] No such file or directory: "
            "'lspci', fallback to use device_name",
            "ValueError: the shard is empty",
        ],
        [("unknown-exception", "")],
    ),
    "ten NaN losses": (
        [
            *steps(9.0, 8.9),
            *(NAN.format(number) for number in range(3, 13)),
            "[rank 0] ERROR    Too many consecutive NaNs — stopping",
            "[rank 0] INFO     Training complete: 13 steps, 1,392,640 tokens",
        ],
        [("nan-loss", ""), ("stopped-after-nans", "nan-loss")],
    ),
    "a warning comes after the error": (
        [
            "W convert_frame.py:1676] torch._dynamo hit config.recompile_limit (8)",
            "OSError: [Errno 28] No space left on device",
        ],
        [("disk-full", ""), ("recompile-limit", "")],
    ),
    "a healthy run": (
        [*steps(9.0, 8.8, 8.5), "[rank 0] INFO     Training complete: 3 steps"],
        [],
    ),
}


@each(("lines", "expected"), RUNS.values(), ids=RUNS)
def test_root_causes_come_first(told, lines, expected):
    assert [(each.code, each.after) for each in told(lines)] == expected


@each(
    ("before", "reserved", "code"),
    [
        ([], "7.10 GiB", "out-of-memory-fragmented"),
        (steps(9.0), "1.10 GiB", "out-of-memory-after-first-step"),
        (steps(9.0, 8.8, 8.6), "512.00 MiB", "out-of-memory-later"),
    ],
)
def test_out_of_memory_says_when(told, before, reserved, code):
    found = told([*before, OOM.format(reserved), OOM.format(reserved)])
    assert [(each.code, each.line, each.count, each.ranks) for each in found] == [
        (code, len(before) + 1, 2, (0,))
    ]
    assert "GPU 0" in found[0].message


STARTED = (
    "[rank 0] INFO     Starting training: step=0, max_steps=4, batch_size=2, "
    "grad_accum=1, world_size=4"
)


@each(
    ("lines", "expected"),
    [
        (["ImportError: no apex", STARTED, *steps(9, 8, 7, 6)], []),
        ([STARTED, *steps(9.0, 8.0), "ImportError: no apex"], [("error", False)]),
        (
            [STARTED, *steps(9, 8, 7), OOM.format("1"), STARTED, *steps(9, 8, 7, 6)],
            [("note", True)],
        ),
        (
            [
                *[STARTED, *steps(9.0), "ValueError: at exit"],
                "[rank 0] INFO     Training complete: 4 steps, 1,024 tokens",
            ],
            [],
        ),
        (
            [STARTED, *steps(9.0), NAN.format(2), STARTED, *steps(9.0)],
            [("error", False)],
        ),
    ],
    ids=range(5),
)
def test_what_the_run_survived_is_a_note_or_nothing(told, lines, expected):
    assert [(one.severity, one.survived) for one in told(lines)] == expected


def test_logs_of_several_ranks_are_one_run(tmp_path):
    lines = {
        "0.log": [STARTED, *steps(9, 8, 7, 6), NCCL.replace("ank 3", "ank 0")],
        "1.log": ["RuntimeError: the size of tensor a must match", CHILD],
        "2.log": [NCCL.replace("ank 3", "ank 2"), CHILD],
    }
    for name, each_line in lines.items():
        (tmp_path / name).write_text("\n".join([*each_line, ""]))
    logs = [read(str(tmp_path / name), causes=texts()) for name in lines]
    found = causes.diagnose(logs, [])
    assert [(one.code, one.count, one.after) for one in found] == [
        ("unknown-exception", 1, ""),
        ("child-failed", 2, "unknown-exception"),
        ("nccl-timeout", 2, "unknown-exception"),
    ]


def test_nan_losses_that_are_skipped_are_a_warning(told):
    (found,) = told([*steps(9.0), NAN.format(2), STEP.format(3, 8.0)])
    assert (found.code, found.severity) == ("nan-skipped", "warning")
    (found,) = told([*steps(9.0), STEP.format(2, "nan")])
    assert (found.code, found.severity) == ("nan-loss", "error")


def test_the_rank_with_the_first_nan_is_told(told):
    lines = [*steps(9.0), NAN.format(2).replace("rank 0", "rank 2"), NAN.format(2)]
    (found,) = told(lines)
    assert found.message.endswith("from step 2 on, first on rank 2")
    line = "[rank 0] WARNING  NaN/Inf detected on another rank at step 7 (total=1)"
    (found,) = told([*steps(9.0), line])
    assert found.message.endswith("from step 7 on, on another rank than rank 0")


def test_the_rank_that_did_not_come_to_a_collective_is_told(told):
    lines = [
        NCCL.replace("ank3]", f"ank{n}]").replace("Rank 3", f"Rank {n}")
        for n in (0, 1, 3)
    ]
    (found,) = told([STARTED, *steps(9.0), *lines])
    assert found.message == (
        "ALLREDUCE timed out on the other ranks: rank 2 never came to it"
    )
    assert found.ranks == (0, 1, 3)


TROUBLES = {
    "FP8 + Tensor Parallelism is not yet supported": (
        "[rank0]: ValueError: FP8 + Tensor Parallelism is not yet supported (torchao "
        "Float8Linear does not compose with DTensor sharding).",
        '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 4\n',
        "-tp = 4\n+tp = 1\n",
    ),
    "the pinned-memory DTensor error": (
        "NotImplementedError: Operator aten.is_pinned.default does not have a sharding "
        "strategy registered.",
        '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 2\n',
        "-tp = 2\n+tp = 1\n",
    ),
    "out of memory": (
        OOM.format("1.10 GiB"),
        "[train]\nbatch_size = 8\n",
        '+activation_checkpointing = "full"\n',
    ),
    "a vocabulary that is not a multiple of 16": (
        "RuntimeError: Expected self.size(1) to be divisible by 16, but got "
        "self.size(1)=50257",
        '[train]\nmixed_precision = "fp8"\n[model]\nvocab_size = 50257\n',
        "-vocab_size = 50257\n+vocab_size = 50304\n",
    ),
}


@each(("line", "text", "patch"), TROUBLES.values(), ids=TROUBLES)
def test_the_fix_of_a_failure_is_a_diff_of_the_config(told, config, line, text, patch):
    read_in = config(text)
    found = told([line], read_in)
    after = causes.fixed(read_in, found, unsafe=True)
    answer = Answer(None, causes=found)
    shown, written = (
        changed(answer, read_in, to_write=to_write, unsafe=True)
        for to_write in (False, True)
    )
    assert patch in "\n".join([*shown, ""])
    assert Path(read_in.path).read_text() == text
    assert list(written) == [f"{read_in.path}: fixed"]
    assert Path(read_in.path).read_bytes() == after
    shown = data(found[0])
    assert shown["fix"]["safety"] == "unsafe"
    assert shown["fix"]["edits"]


def test_a_fix_of_out_of_memory_fits_the_gpu(config):
    text = (
        "# fp8tune: gpu=h100 world-size=8\n[model]\nn_kv_heads = 8\n"
        "vocab_size = 128256\nmax_seq_len = 8192\n[train]\nbatch_size = 32\n"
        'seq_len = 8192\nactivation_checkpointing = "none"\n'
    )
    found = causes.diagnosis(KNOWN["out-of-memory"], "", [], NONE, config(text))
    assert (
        "train.batch_size = 1`" in found.fix.title
    )  # full checkpointing is too little
    small = text.replace("batch_size = 32", "batch_size = 1")
    found = causes.diagnosis(KNOWN["out-of-memory"], "", [], NONE, config(small))
    assert found.fix.title == 'set `train.activation_checkpointing = "full"`'


def test_a_loss_that_diverges_is_told_with_its_numbers(told, config):
    losses = [10.8 - 0.1 * row for row in range(20)] + [
        9.0 + 0.4 * row for row in range(20)
    ]
    text = '[train]\nmixed_precision = "fp8"\n[optimizer]\nlr = 0.001\n'
    read_in = config(text)
    found = told([STEP.format(n, f"{x:.4f}") for n, x in enumerate(losses, 1)], read_in)
    assert [(each.code, each.after) for each in found] == [
        ("loss-diverged-early", ""),
        ("loss-diverged", "loss-diverged-early"),
    ]
    assert "it rises to " in found[0].message
    assert "lr = 0.0005" in causes.fixed(read_in, found, unsafe=True).decode()


def test_captured_text_is_short_and_has_no_control_characters(told):
    name = "\x1b[31m" + "\u202e" + "x" * 5000
    found = told(
        [f"ModuleNotFoundError: No module named '{name[:150]}'", f"ValueError: {name}"]
    )
    for each_one in found:
        assert each_one.message.isprintable()
        assert len(each_one.message) < 400


def test_explain_shows_a_cause(fp8tune):
    said = fp8tune("explain", "loss-diverged")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("loss-diverged\nA loss that diverged\n")
    page = fp8tune("explain", "nan-loss", "--output-format", "json").json
    assert (page["kind"], page["name"]) == ("cause", "nan-loss")
