"""--add-ignore: comments that silence every finding, and change nothing else."""

import tomllib
from pathlib import Path

import pytest

from tests.each import each

CONFIG = """\
[train]
mixed_precision = "fp8"
compile_model = false  # debugging
  [distributed]
  tp = 4
"""

WRITTEN = """\
[train]
mixed_precision = "fp8"
# fp8tune: ignore[fp8-without-compile]
compile_model = false  # debugging
  [distributed]
  # fp8tune: ignore[fp8-with-tensor-parallel]
  tp = 4
"""

BOTH = "fp8-without-compile, fp8-with-tensor-parallel"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_comment_above_each_finding(project, fp8tune, newline):
    folder = project({})
    data = CONFIG.replace("\n", newline).encode()
    (folder / "a.toml").write_bytes(data)
    outcome = fp8tune("lint", "a.toml", "--add-ignore")
    assert (outcome.code, outcome.err) == (0, "")
    assert (
        outcome.out.splitlines()[-1]
        == f"added ignore comments for 2 findings in 1 file: {BOTH}"
    )
    assert (folder / "a.toml").read_bytes() == WRITTEN.replace("\n", newline).encode()
    assert fp8tune("lint", "a.toml", "--fail-on", "note").code == 0


def test_reason_and_day(project, fp8tune):
    folder = project({"a.toml": CONFIG})
    words = ("--reason", "waiting for 580", "--until", "2099-12-31")
    assert fp8tune("lint", "a.toml", "--add-ignore", *words).code == 0
    comment = "fp8-without-compile] until=2099-12-31 -- waiting for 580\n"
    assert comment in (folder / "a.toml").read_text()


@each(
    ("words", "said"),
    [
        (("--reason", "x"), "--reason and --until need --add-ignore"),
        (("--add-ignore", "--until", "soon"), "--until soon: not a date of the form"),
        (
            ("--add-ignore", "--until", "2020-01-01"),
            "--until 2020-01-01: that day has p",
        ),
        (("--add-ignore", "--reason", "a\nb"), "--reason: one line without control"),
        (("--add-ignore", "--fix"), "--add-ignore and --fix cannot be combined"),
        (("--add-ignore", "--unsafe-fixes"), "--add-ignore and --fix cannot be combi"),
    ],
)
def test_bad_words(project, fp8tune, words, said):
    folder = project({"a.toml": CONFIG})
    outcome = fp8tune("lint", "a.toml", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert (folder / "a.toml").read_text() == CONFIG


def test_a_comment_that_is_there_gets_the_name(project, fp8tune):
    text = "# fp8tune: ignore[fp8-vocab-size-not-16] -- later\nvocab_size = 257\n"
    head = '[train]\nmixed_precision = "fp8"\n[model]\nn_layers = 2\n'
    folder = project({"a.toml": head + text + "vocabsize = 3\n"})
    shown = fp8tune("lint", "a.toml", "--add-ignore", "--output-format", "concise")
    assert shown.out == ""
    assert (
        "# fp8tune: ignore[unknown-key]\nvocabsize" in (folder / "a.toml").read_text()
    )


@pytest.mark.parametrize(
    "text",
    [
        "# a config\n[train]\nmax_steps = 20\n",
        "[train]\nmax_steps = 20\n",
        'model.n_heads = 4\n\n[train]\nmixed_precision = "fp8"\ncompile_model = 0\n',
        '[[data.datasets]]\npath = "a"\nweight = "x"\n[train]\nseed = 1\n',
    ],
)
def test_every_finding_is_silent_and_every_value_kept(project, fp8tune, text):
    folder = project({"a.toml": text})
    assert fp8tune("lint", "a.toml", "--add-ignore", "--fail-on", "note").code == 0
    written = (folder / "a.toml").read_text()
    assert written != text
    assert tomllib.loads(written) == tomllib.loads(text)
    assert fp8tune("lint", "a.toml", "--fail-on", "note").code == 0


SCRIPT = """\
torchrun --nproc_per_node 8 pretrain_gpt.py \\
  --num-layers 16 --hidden-size 2048 --num-attention-heads 16 \\
  --seq-length {seq_len} --max-position-embeddings 2048 \\
  --micro-batch-size 1 --global-batch-size 64 --train-iters 100 --lr 1e-4 \\
  --tokenizer-type NullTokenizer --vocab-size 32000 --mock-data \\
  --fp8-format hybrid {more}
"""


def test_the_comment_of_a_command_stands_above_all_its_lines(project, fp8tune):
    project({"run.sh": SCRIPT.format(seq_len=2044, more="--mup 2")})
    added = fp8tune("lint", "run.sh", "--add-ignore")
    assert (added.code, "added ignore comments for 3 findings" in added.out) == (
        0,
        True,
    )
    first, *rest = Path("run.sh").read_text().splitlines(keepends=True)
    names = "fp8-tokens-not-16, fp8-without-bf16, unknown-key"
    assert first == f"# fp8tune: ignore[{names}]\n"
    assert "".join(rest) == SCRIPT.format(seq_len=2044, more="--mup 2")
    assert "no findings in 1 file" in fp8tune("lint", "run.sh").out


def test_where_no_comment_can_stand_none_is_added(project, fp8tune):
    words = SCRIPT.format(seq_len=2044, more="").partition(".py")[2].replace("\\", "")
    text = f'FLAGS="{words}"\ntorchrun --nproc_per_node 8 pretrain_gpt.py $FLAGS\n'
    project({"run.sh": text})
    said = fp8tune("lint", "run.sh", "--add-ignore")
    assert "no ignore comments were added: a comment there" in said.out
    assert Path("run.sh").read_text() == text


def test_what_no_comment_can_silence(project, fp8tune):
    text = "[train]\nseed = 1  # fp8tune: ignore[nothing-at-all]\n"
    folder = project({"a.toml": text, "b.toml": "[train\n"})
    assert fp8tune("lint", "a.toml", "b.toml", "--add-ignore").code == 1
    assert (folder / "a.toml").read_text() == text
    assert (folder / "b.toml").read_text() == "[train\n"


R = "until=2099-12-31 -- R"
SIZE = "[train]\n{}batch_size = 3.9{}\n"


@pytest.mark.parametrize(
    ("above", "behind", "added"),
    [
        ("", "", f"# fp8tune: ignore[value-truncated] {R}\n"),
        (
            "",
            " # fp8tune: ignore[value-truncated] until=2020-01-01",
            f"# fp8tune: ignore[value-truncated] {R}\n",
        ),
        (
            "",
            " # fp8tune: ignore[moe-with-compile] -- keep",
            f"# fp8tune: ignore[value-truncated] {R}\n",
        ),
        (
            "# fp8tune: ignore[moe-with-compile] -- R\n",
            "",
            f"# fp8tune: ignore[value-truncated] {R}\n",
        ),
    ],
)
def test_a_comment_with_other_words_is_left_alone(
    project, fp8tune, above, behind, added
):
    folder = project({"a.toml": SIZE.format(above, behind)})
    words = ("--reason", "R", "--until", "2099-12-31", "--select", "value-truncated")
    outcome = fp8tune("lint", "a.toml", "--add-ignore", *words)
    assert "added ignore comments for 1 finding in 1 file" in outcome.out
    assert (folder / "a.toml").read_text() == SIZE.format(above + added, behind)
    again = fp8tune("lint", "a.toml", "--add-ignore", *words)
    assert "added ignore comments for" not in again.out
    assert (folder / "a.toml").read_text() == SIZE.format(above + added, behind)


@pytest.mark.parametrize("where", [(f"# fp8tune: ignore[{{}}] {R}\n", ""), ("", R)])
def test_a_comment_with_the_same_words_gets_the_name(project, fp8tune, where):
    above, behind = where
    behind = f" # fp8tune: ignore[{{}}] {behind}" * bool(behind)
    text = SIZE.format(above, behind)
    folder = project({"a.toml": text.format("moe-with-compile")})
    words = ("--reason", "R", "--until", "2099-12-31", "--select", "value-truncated")
    assert fp8tune("lint", "a.toml", "--add-ignore", *words).code == 0
    names = "moe-with-compile, value-truncated"
    assert (folder / "a.toml").read_text() == text.format(names)
