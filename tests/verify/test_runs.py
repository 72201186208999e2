"""Runs from files and folders: which is taken, restarts, tokens and speed."""

import math

import pytest

from fp8tune.verify import runs, tags
from fp8tune.verify.evidence import QUANTITIES
from fp8tune.verify.runs import CannotRead, read
from fp8tune.verify.scalars import Scalars
from tests.each import each
from tests.verify.files import event, log, table, wandb_file, wandb_row


def steps(run):
    return list(zip(run.curve.step, run.curve.loss, strict=True))


def test_a_log_with_a_restart(tmp_path):
    path = tmp_path / "train.log"
    first = [(n, 9 - n / 10) for n in range(1, 31)]
    second = [(n, 5 - n / 10) for n in range(21, 41)]
    path.write_text(log(first) + log(second))
    run = read(str(path))
    both = first[:20] + second
    assert list(run.curve.step) == [step for step, _ in both]
    assert list(run.curve.loss) == pytest.approx([loss for _, loss in both])
    assert (run.source, run.starts, run.repeated) == ("log of kempnerforge", 2, 10)
    assert (run.tokens_per_step, run.tokens_per_second) == (65536, 65536)


def test_steps_of_nan_have_no_line_of_a_step(tmp_path):
    path = tmp_path / "train.log"
    line = "[rank 0] WARNING  NaN/Inf loss at step {} (consecutive=1, total=1)\n"
    path.write_text(log([(1, 3.0), (3, 2.0)]) + line.format(2) + line.format(4))
    run = read(str(path))
    assert list(run.curve.step) == [1, 2, 3, 4]
    assert run.not_finite == [2, 4]


def test_event_files_of_two_starts(tmp_path):
    for name, first in (("a.tfevents.9", 1), ("b.tfevents.10", 3)):
        events = (
            event(n, 100.0 + 2 * n, train__loss=first, train__grad_norm=1.0)
            for n in range(first, first + 4)
        )
        (tmp_path / name).write_bytes(b"".join(events))
    run = read(str(tmp_path))
    assert steps(run) == [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3), (6, 3)]
    assert list(run.curve.grad_norm) == [1.0] * 6
    assert (run.starts, run.step_s, len(run.files)) == (2, 2.0, 2)
    assert run.source == "TensorBoard"


def test_two_runs_are_not_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        data = event(1, 0.0, loss=1.0) + event(2, 1.0, loss=1.0)
        (tmp_path / name / "x.tfevents").write_bytes(data)
    with pytest.raises(CannotRead, match="both begin at step 1"):
        read(str(tmp_path))


def test_what_a_folder_is_read_from(tmp_path):
    (tmp_path / "wandb").mkdir()
    rows = [wandb_row(n, train__loss=1.0, train__tok_per_sec=7.0) for n in range(3)]
    (tmp_path / "wandb" / "run-1.wandb").write_bytes(wandb_file(rows))
    (tmp_path / "train.log").write_text(log([(1, 2.0), (2, 2.0)]))
    (tmp_path / "x.tfevents.1").write_bytes(event(1, 0.0, other=1.0))
    run = read(str(tmp_path))
    assert (run.source, steps(run)) == (
        "wandb of nanochat",
        [(n, 1.0) for n in range(3)],
    )
    (tmp_path / "wandb" / "run-1.wandb").unlink()
    assert read(str(tmp_path)).source == "log of kempnerforge"


def test_a_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(table([3.0, math.nan, 2.0]))
    run = read(str(path))
    assert (run.source, run.tokens_per_step) == ("CSV", 1024)
    assert run.not_finite == [2]


@each(
    ("name", "data", "message"),
    [
        ("a.csv", b"step,accuracy\n1,2\n", "--loss-tag names it, of `accuracy`"),
        ("a.csv", b"", "no CSV with a header"),
        ("a.log", b"hello\n", "no line of a training step"),
        ("x.tfevents", b"", "no tag is known to be the loss"),
        ("a.bin", bytes(range(256)) * 40, "a.bin: "),
    ],
)
def test_no_runs(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(CannotRead, match=message):
        read(str(path))


def test_an_empty_folder(tmp_path):
    with pytest.raises(CannotRead, match="no event file, wandb file, CSV or log"):
        read(str(tmp_path))


def test_a_tag_can_be_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("step,loss,ce\n1,2,3\n2,2,3\n")
    assert list(read(str(path), "ce").curve.loss) == [3, 3]
    with pytest.raises(CannotRead, match="no tag `nothing`; there are `ce`, `loss`"):
        read(str(path), "nothing")


def test_the_tags_are_well_formed():
    known = tags.known()
    assert set(known) >= {"kempnerforge", "torchtitan", "transformers", "prime-rl", ""}
    for quantities in known.values():
        assert set(quantities) <= set(QUANTITIES)
        assert quantities["loss"]
        assert all(isinstance(tag, str) for own in quantities.values() for tag in own)


def test_the_trainer_with_the_most_tags_is_taken():
    scalars = Scalars()
    for tag in ("loss_metrics/global_avg_loss", "n_tokens_seen", "grad_norm", "lr"):
        scalars.add(tag, 1, 1.0, 0.0)
    assert tags.named(scalars) == (
        "torchtitan",
        {
            "loss": "loss_metrics/global_avg_loss",
            "grad_norm": "grad_norm",
            "learning_rate": "lr",
            "tokens": "n_tokens_seen",
        },
    )


def test_fp8_statistics_of_transformer_engine(tmp_path):
    path = tmp_path / "a.log"
    line = "INFO - a.fc1_gradient_underflows%  \t\t iteration={:06} \t\t value={}\n"
    text = "".join(line.format(n, n / 8) for n in range(8))
    path.write_text(log([(1, 2.0), (2, 2.0)]) + text)
    (scale,) = read(str(path)).scales
    assert scale == ("a.fc1", "gradient", "underflows%", 0.8125, 0.875)


def test_names_are_read_in_the_order_of_their_numbers():
    names = ["run-10.log", "run-9.log", "a/run-1.log"]
    assert sorted(names, key=runs._natural) == [
        "a/run-1.log",
        "run-9.log",
        "run-10.log",
    ]
