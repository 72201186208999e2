"""Runs from files and folders: which is taken, restarts, tokens and speed."""

import json
import math

import pytest

from fp8tune.verify import tags
from fp8tune.verify.evidence import Curve
from fp8tune.verify.gap import compare
from fp8tune.verify.gap_findings import findings
from fp8tune.verify.runs import CannotRead, Run, read
from fp8tune.verify.scalars import Scalars
from fp8tune.verify.tags import Scale
from tests.each import each
from tests.verify.files import event, log


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
    path.write_text(
        log([(1, 3.0), (3, 2.0)]) + line.format(2) + line.format(4) + line.format(5)
    )
    run = read(str(path))
    assert list(run.curve.step) == [1, 2, 3, 4, 5]
    assert run.not_finite == [2, 4, 5]
    path.write_text(log([(1, 3.0), (3, 2.0)]) + line.format(4))
    assert list(read(str(path)).curve.step) == [1, 3]


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
    table = tmp_path / "run.csv"
    table.write_text("step,train/loss,train/tok_per_sec\n0,1,7\n1,1,7\n2,1,7\n")
    (tmp_path / "train.log").write_text(log([(1, 2.0), (2, 2.0)]))
    (tmp_path / "x.tfevents.1").write_bytes(event(1, 0.0, other=1.0))
    run = read(str(tmp_path))
    assert (run.source, steps(run)) == (
        "CSV of nanochat",
        [(n, 1.0) for n in range(3)],
    )
    table.unlink()
    assert read(str(tmp_path)).source == "log of kempnerforge"


@each(
    ("name", "data", "message"),
    [
        ("a.csv", b"step,accuracy\n1,2\n", "known as the loss: `accuracy`; choose"),
        ("run-1.wandb", b":W&B", "export the run as CSV"),
        ("a.log", b"hello\n", "no line of a training step"),
        ("a.bin", bytes(range(256)) * 40, "a.bin: "),
    ],
)
def test_no_runs(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(CannotRead, match=message):
        read(str(path))


def test_a_tag_can_be_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("step,loss,ce\n1,2,3\n2,2,3\n")
    assert list(read(str(path), "ce").curve.loss) == [3, 3]
    with pytest.raises(CannotRead, match="no tag `nothing`; there are `ce`, `loss`"):
        read(str(path), "nothing")


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
    path = tmp_path / "x.tfevents.1"
    tag = "a.fc1_gradient_underflows%"
    rows = (event(n, 0.0, **{tag: n / 8}, loss=2.0) for n in range(8))
    path.write_bytes(b"".join(rows))
    (scale,) = read(str(path)).scales
    assert scale == ("a.fc1", "gradient", "underflows%", 0.8125, 0.875)


@each(
    ("name", "text", "source"),
    [
        ("m.jsonl", '{"step": 1, "loss": 3}\n{"step": 2, "loss": NaN}\n', "JSON lines"),
        ("m.jsonl", 'x\n[1]\n{"loss": 3, "_step": 1, "a": true}\n[[[', "JSON lines"),
        (
            "trainer_state.json",
            '{"log_history": [{"loss": 3, "step": 1}, {"eval_loss": 2, "step": 1}, 7]}',
            "state",
        ),
    ],
)
def test_json(tmp_path, name, text, source):
    path = tmp_path / name
    path.write_text(text)
    run = read(str(path))
    assert (run.source, run.curve.step[0], run.curve.loss[0]) == (source, 1, 3)


@each(
    ("name", "text"),
    [
        ("trainer_state.json", "[" * 99_999),
        ("m.jsonl", "{}"),
    ],
)
def test_json_without_rows(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(CannotRead, match="no JSON object with numbers"):
        read(str(path))


def test_the_last_state_of_a_trainer_has_all_steps(tmp_path):
    for last in (9, 10):
        folder = tmp_path / f"checkpoint-{last}"
        folder.mkdir()
        rows = [{"loss": 2.0, "step": n, "grad_norm": 1.0} for n in range(1, last + 1)]
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    run = read(str(tmp_path))
    assert (run.curve.step[-1], run.starts) == (10, 1)


def test_a_bf16_run_whose_log_says_fp8(tmp_path):
    both = [tmp_path / "a.log", tmp_path / "b.log"]
    for path in both:
        path.write_text(
            "[rank 0] INFO     Applied Float8 training: recipe=TENSORWISE\n"
            + log((n, 2.0) for n in range(1, 9))
        )
    found = findings(compare([read(str(both[0]))], [read(str(both[1]))]))
    assert [one.code for one in found].count("bf16-run-says-fp8") == 1


def test_all_that_is_said_of_a_run():
    curve = Curve()
    for step in range(1, 101):
        curve.add(step=step, loss=math.nan if step == 50 else 2.0)
    scale = Scale("a.fc1", "gradient", "underflows%", 0.8, 0.9)
    fp8 = Run("a\x1b", "", [], curve, 2, 10, 1.0, ended=False, scales=[scale], cut="b")
    other = Curve()
    for step in range(1, 201):
        other.add(step=step, loss=2.0)
    bf16 = Run("b", "", [], other, tokens_per_step=1.0)
    messages = {one.code: one.message for one in findings(compare([fp8], [bf16]))}
    assert messages["restarts"] == (
        r"a\u001b: 2 starts; 10 logged steps were repeated, the later ones count."
    )
    assert messages["not-finite"] == (
        r"a\u001b: 1 logged step with a loss of NaN or infinity, the first at step 50."
    )
    assert messages["other-length"] == (
        "Compared up to 100 tokens; the longest run has 200."
    )
    assert messages["not-ended"] == r"a\u001b: the run stopped before its end."
    assert messages["cut"] == r"a\u001b: not read to its end: b."
    assert messages["fp8-statistics"] == (
        "a.fc1, gradient: underflows% 0.8 (highest 0.9)."
    )
    assert messages["no-gradient-norms"] == "Not all runs log gradient norms."
