"""The files: every byte kept but what changes, linted, and never in another's place."""

import os
import random
import tomllib
from pathlib import Path

import pytest

from tests.each import each
from tests.formats.toml.writer import Writer
from tests.phases.configs import KEMPNERFORGE, torchtitan

ASKED = ("--bf16-warmup", "30", "--bf16-cooldown", "20")
OWN = KEMPNERFORGE.encode()
NAMES = ["train.1-bf16.toml", "train.2-fp8.toml", "train.3-bf16.toml"]
FILES = [*NAMES, "train.phases.py", "train.phases.sh", "train.toml"]


@pytest.fixture
def phases(tmp_path, fp8tune, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(data=OWN, *arguments):
        if data:
            Path("train.toml").write_bytes(data)
        return fp8tune("phases", "train.toml", *ASKED, *arguments)

    return run


def without_ours(data):
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if b"# fp8tune phases:" not in line)


@each(
    "data",
    [
        KEMPNERFORGE.encode(),
        KEMPNERFORGE.replace("\n", "\r\n").encode(),
        KEMPNERFORGE.replace("[scheduler]\nwarmup_steps = 100\n", "").encode(),
        KEMPNERFORGE.replace(
            "[scheduler]\n", "[scheduler] # é\n  decay_steps = 50 \n"
        ).encode(),
    ],
)
def test_every_other_byte_stays(phases, data):
    assert phases(data).code == 0
    third = Path(NAMES[2]).read_bytes()
    changed = data.replace(b'= "fp8"', b'= "bf16"').replace(b"a b", b"a b-phases")
    assert without_ours(third) == changed
    first = without_ours(Path(NAMES[0]).read_bytes())
    kept = [line for line in data.splitlines() if b"ignore[" not in line]
    lost = [line for line in kept if line not in first.splitlines()]
    assert lost == [
        b"max_steps = 1000",
        b'mixed_precision = "fp8"    # the fast one',
        b'dir = "runs/a b"',
    ]


def test_comments_say_what_changed_and_why(phases):
    assert phases().code == 0
    lines = Path(NAMES[0]).read_text().splitlines()
    assert [line for line in lines if "fp8tune" in line] == [
        "# fp8tune phases: phase 1 of 3 of train.toml: bf16, steps 1 to 30 of 1000",
        "# fp8tune: gpu=h100 world-size=8",
        "# fp8tune phases: 1000 -> 30",
        "# fp8tune phases: fp8 -> bf16",
        "# fp8tune: ignore[warmup-longer-than-run] -- phase 1 of 3",
        "# fp8tune phases: as in the whole run; by default it is the rest of max_steps",
        "# fp8tune phases: the phases share a folder of their own",
    ]


@each("text", [KEMPNERFORGE, torchtitan("0.2.2")])
def test_the_phases_lint_as_clean_as_the_config(phases, fp8tune, text):
    assert phases(text.encode()).code == 0
    own, *others = (
        fp8tune("lint", name, "--output-format", "json").json["diagnostics"]
        for name in ("train.toml", *NAMES)
    )
    known = {found["rule"] for found in own}
    assert [{found["rule"] for found in one} - known for one in others] == [set()] * 3
    assert {found["rule"] for found in whole(fp8tune)} <= known


def whole(fp8tune):
    """Findings in all files of the folder, which rules on two files compare."""
    return fp8tune("lint", ".", "--output-format", "json").json["diagnostics"]


def test_nothing_is_written_where_phases_are_refused(phases):
    for keys in ('async_mode = "async"', 'load_path = "a"'):
        assert phases(f"{KEMPNERFORGE}{keys}\n".encode()).code == 2
        assert os.listdir() == ["train.toml"]


@each("name", [*NAMES, "train.phases.sh", "train.phases.py"])
def test_files_of_others_are_not_replaced(phases, name):
    for path in os.listdir():
        os.unlink(path)
    Path(name).write_text("mine")
    ended = phases()
    assert ended.code == 2
    assert f"{name} exists and phases did not write it" in ended.err
    assert sorted(os.listdir()) == sorted(["train.toml", name])
    os.unlink(name)
    assert phases(None).code == 0
    assert sorted(os.listdir()) == FILES
    assert phases(None).code == 0  # its own files


def test_without_a_cool_down_nothing_is_imported(tmp_path, fp8tune, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.toml").write_text(KEMPNERFORGE)
    assert fp8tune("phases", "train.toml", "--bf16-warmup", "9").code == 0
    assert sorted(os.listdir()) == [*NAMES[:2], "train.phases.sh", "train.toml"]
    second = Path(NAMES[1]).read_bytes()
    assert without_ours(second) == OWN.replace(b"a b", b"a b-phases")


def test_fp8_all_gather_of_torchtitan_imports_torchao_by_its_own_key(phases):
    text = torchtitan("0.2.2").replace(
        "filter_fqns", "enable_fsdp_float8_all_gather = true\nfilter_fqns"
    )
    assert phases(text.encode(), "--world-size", "8").code == 0
    first, second, third = (tomllib.loads(Path(name).read_text()) for name in NAMES)
    assert "experimental" not in first | second
    assert third["experimental"] == {"custom_import": "torchao.float8"}
    assert [c["checkpoint"].get("last_save_model_only") for c in (first, third)] == [
        False,
        None,
    ]


def test_overrides_are_handed_on_and_may_not_undo_a_phase(phases):
    assert phases(KEMPNERFORGE.encode(), "--", "--train.batch_size=4").code == 0
    calls = Path("train.phases.sh").read_text().splitlines()[-3:]
    assert all(line.endswith(".toml --train.batch_size=4") for line in calls)
    ended = phases(None, "--", "--train.max_steps=500")
    assert (ended.code, "on the command line too" in ended.err) == (2, True)


@pytest.mark.parametrize("text", [KEMPNERFORGE, torchtitan("0.2.2")])
def test_any_layout_is_written_or_refused(phases, text):
    wanted, written = tomllib.loads(text), 0
    for seed in range(60):
        layout = Writer(random.Random(seed), bare=seed % 2 == 0).document(wanted)
        for path in os.listdir():
            os.unlink(path)
        ended = phases(layout.encode())
        if ended.code == 2:
            assert "cannot write" in ended.err
            assert os.listdir() == ["train.toml"]
            continue
        assert ended.code == 0, ended.err
        written += 1
        first = tomllib.loads(Path(NAMES[0]).read_text())
        steps = first.get("train", {}) | first.get("training", {})
        assert 30 in (steps.get("max_steps"), steps.get("steps"))
        data, own = Path(NAMES[2]).read_bytes(), Path("train.toml").read_bytes()
        assert data.count(b"#") >= own.count(b"#")
    assert written >= 25


def test_the_plot(phases):
    pytest.importorskip("matplotlib")
    assert phases(KEMPNERFORGE.encode(), "--plot", "a.svg").code == 0
    text = Path("a.svg").read_text()
    assert text.count("<svg") == 1
    assert phases(None, "--plot", "a.png").code == 0
    assert Path("a.png").read_bytes()[:4] == b"\x89PNG"
    refused = [("a.pdf", "end with .png"), ("a.png", "exists"), ("no/a.png", "No such")]
    for path, reason in refused:
        ended = phases(None, "--plot", path)
        assert (ended.code, reason in ended.err) == (2, True)


def test_trainers_that_cannot_say_so(phases, fp8tune):
    sft = 'max_steps = 9\n[model]\nname = "a/b"\n[data]\ntype = "sft"\nname = "a/b"\n'
    ended = phases(sft.encode())
    assert ended.code == 2
    assert "a resumed run takes T_max and milestones from the checkpoint" in ended.err
    folder = Path(__file__).parent.parent.parent / "docs" / "own_trainer"
    named = ("--trainer", str(folder / "ours.toml"))
    ended = fp8tune("phases", str(folder / "train.toml"), *ASKED, *named)
    assert ended.code == 2
    assert "it is not known how it resumes across precisions" in ended.err
