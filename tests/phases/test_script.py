"""The script runs the phases, skips those that ended, and stops where one did not."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.each import each
from tests.phases.configs import KEMPNERFORGE

STAND_IN = Path(__file__).with_name("trainer.py")
EVIL = "a b'\"$(touch evil)`touch evil`\n;touch evil\\*é"


@pytest.fixture
def script(tmp_path, fp8tune, monkeypatch):
    """Write the phases of a config, and return a function that runs their script."""
    monkeypatch.chdir(tmp_path)

    def written(name="train", folder="runs/a b"):
        text = KEMPNERFORGE.replace('"runs/a b"', json.dumps(folder))
        Path(f"{name}.toml").write_text(text)
        launcher = shlex.join([sys.executable, str(STAND_IN)])
        asked = ("--bf16-warmup", "30", "--bf16-cooldown", "20", "--launcher", launcher)
        ended = fp8tune("phases", f"{name}.toml", *asked)
        assert ended.code == 0, ended.err
        return lambda *words: started(f"{name}.phases.sh", words)

    return written


def started(path, words):
    """Run the script; ``words`` say what happens at each launch of the trainer."""
    Path("launches.json").write_text(json.dumps(words))
    Path("launched.jsonl").write_text("")
    done = subprocess.run(
        ["bash", path], capture_output=True, text=True, check=False, timeout=60
    )
    launches = map(json.loads, Path("launched.jsonl").read_text().splitlines())
    return done, [(precision, step) for precision, step, _ in launches]


def test_the_phases_run_one_after_the_other_and_only_once(script):
    run = script()
    done, launches = run()
    assert done.returncode == 0
    assert launches == [("bf16", 0), ("fp8", 30), ("bf16", 980)]
    assert os.readlink("runs/a b-phases/latest") == "step_1000"
    done, launches = run()
    assert (done.returncode, launches) == (0, [])
    assert done.stdout.count("ended before, runs/a b-phases has step 1000") == 3


def test_the_phase_after_fp8_has_torchao_imported(script):
    run = script()
    run()
    lines = map(json.loads, Path("launched.jsonl").read_text().splitlines())
    programs = [words for _, _, words in lines]
    assert programs == [
        ["scripts/train.py"],
        ["scripts/train.py"],
        ["train.phases.py", "scripts/train.py"],
    ]


@each(
    ("word", "reason", "goes_on"),
    [
        (
            "fail",
            "failed; start this script again to go on from step 30",
            30,
        ),
        ("stopped", "exited before step 980; start this script again to go on", 505),
        ("nan", "exited before step 980; start this script again to go on", 30),
    ],
)
def test_an_interrupted_phase_goes_on(script, tmp_path, word, reason, goes_on):
    name = f"run-{word}"
    run = script(name, name)
    done, launches = run("good", word)
    assert (done.returncode, launches) == (1, [("bf16", 0), ("fp8", 30)])
    assert done.stderr.startswith("phase 2-fp8: the trainer ")
    assert reason in done.stderr
    done, launches = run()
    assert done.returncode == 0
    assert launches == [("fp8", goes_on), ("bf16", 980)]


def test_checkpoints_of_another_run_are_left_alone(script):
    run = script()
    Path("runs/a b-phases").mkdir(parents=True)
    Path("runs/a b-phases/latest").symlink_to("step_5000")
    done, launches = run()
    assert (done.returncode, launches) == (1, [])
    assert "there is no train.1-bf16.to-30.log: these are checkpoints of" in done.stderr


def test_checkpoints_of_another_split_are_left_alone(script, fp8tune):
    run = script()
    run("good", "run-fail")
    assert fp8tune("phases", "train.toml", "--bf16-warmup", "90").code == 0
    done, launches = run()
    assert (done.returncode, launches) == (1, [])
    assert done.stderr.endswith(
        "there is no train.1-bf16.to-90.log: these are checkpoints of another run or "
        "of other phases; move runs/a b-phases away\n"
    )


def test_the_name_of_a_checkpoint_is_never_evaluated(script):
    run = script()
    Path("runs/a b-phases").mkdir(parents=True)
    Path("runs/a b-phases/latest").symlink_to("a[$(touch evil)0]")
    done, _ = run("fail")
    assert done.returncode == 1
    assert not Path("evil").exists()


def test_a_checkpoint_without_the_last_line_is_not_enough(script):
    run = script()
    run()
    Path("train.2-fp8.to-980.log").write_text(
        "Training complete: 979 steps, 7 tokens\n"
    )
    Path("runs/a b-phases/latest").unlink()
    Path("runs/a b-phases/latest").symlink_to("step_30")
    silent = f"print = lambda *_: None\n{STAND_IN.read_text()}"
    Path("silent.py").write_text(silent)
    text = Path("train.phases.sh").read_text().replace(str(STAND_IN), "silent.py")
    Path("train.phases.sh").write_text(text)
    done, launches = run()
    assert (done.returncode, launches) == (1, [("fp8", 30)])
    assert "train.2-fp8.to-980.log does not say: Training complete: 980" in done.stderr


def test_no_path_is_ever_run(script, tmp_path):
    folder = EVIL.replace("\n", "")
    run = script(EVIL, folder)
    done, launches = run()
    assert done.returncode == 0, done.stderr
    assert launches == [("bf16", 0), ("fp8", 30), ("bf16", 980)]
    assert os.readlink(tmp_path / f"{folder}-phases" / "latest") == "step_1000"
    assert not any(tmp_path.rglob("evil"))
    text = Path(f"{EVIL}.phases.sh").read_text()
    assert text.splitlines()[1].startswith("# Written by fp8tune phases from a b")


def test_bash_reads_the_script_of_torchtitan(tmp_path, fp8tune, monkeypatch):
    """Its rule for the newest checkpoint: the largest step that has its metadata."""
    from tests.phases.configs import torchtitan

    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text(torchtitan("0.2.2"))
    ended = fp8tune("phases", "t.toml", "--bf16-warmup", "30")
    assert ended.code == 0, ended.err
    text = Path("t.phases.sh").read_text()
    for step in ("step-9", "step-30", "step-200"):
        Path("outputs/checkpoint-phases", step).mkdir(parents=True)
    for step in ("step-9", "step-30"):
        Path("outputs/checkpoint-phases", step, ".metadata").touch()
    functions = text[: text.index("fail()")]
    for command, step in (("saved_step", "30"), ("checkpoints=no; saved_step", "0")):
        said = subprocess.run(
            ["bash", "-c", f"{functions}\n{command}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout.strip() == step
