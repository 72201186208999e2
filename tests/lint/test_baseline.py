"""The baseline: what it holds back, what is stale in it, and how it is written."""

import json

import pytest

from tests.sample import ERROR, WARNING

FIRST = '{"fp8tune-baseline": 1}'


def entry(path: str, rule: str, key: str) -> str:
    return json.dumps({"path": path, "rule": rule, "key": key})


TP = entry("a.toml", "fp8-with-tensor-parallel", "distributed.tp")
WARMUP = entry("b.toml", "warmup-longer-than-run", "scheduler.warmup_steps")


@pytest.fixture
def written(project, fp8tune):
    """Two configs with a finding each, and their baseline."""
    folder = project({"a.toml": ERROR, "b.toml": WARNING})
    assert fp8tune("lint", ".", "--baseline", "base", "--update-baseline").code == 0
    return folder


def lines(folder) -> list[str]:
    return (folder / "base").read_text().splitlines()


def test_a_stale_entry_fails(written, fp8tune):
    (written / "a.toml").write_text(ERROR.replace("4", "1"))
    outcome = fp8tune("lint", ".", "--baseline", "base")
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        "stale: base:2: a.toml no longer has fp8-with-tensor-parallel at "
        "distributed.tp",
        "the baseline is stale: the same command with --update-baseline fixes it",
    ]
    assert fp8tune("lint", ".", "--baseline", "base", "--fail-on", "never").code == 0


def test_an_entry_of_a_file_that_is_gone_is_stale(written, fp8tune):
    (written / "a.toml").unlink()
    outcome = fp8tune("lint", "b.toml", "--baseline", "base")
    assert (outcome.code, outcome.err.splitlines()[0]) == (
        1,
        "stale: base:2: a.toml is gone",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("b.toml",),
        (".", "--ignore", "fp8-with-tensor-parallel"),
        (".", "--select", "slow"),
    ],
)
def test_what_was_not_judged_is_not_stale(written, fp8tune, arguments):
    (written / "a.toml").write_text(ERROR.replace("4", "1"))
    select = ("b.toml", "--select", "slow") if "slow" in arguments else arguments
    assert fp8tune("lint", *select, "--baseline", "base").code == 0
    assert fp8tune("lint", *select, "--baseline", "base", "--update-baseline").code == 0
    assert TP in lines(written)


def test_a_rule_that_lacks_a_fact_is_not_stale(project, fp8tune):
    text = "[distributed]\ncp = 3\n"
    folder = project({"a.toml": text})
    command = ("lint", ".", "--baseline", "base", "--fail-on", "note")
    assert fp8tune(*command, "--world-size", "8", "--update-baseline").code == 0
    assert len(lines(folder)) == 2
    assert fp8tune(*command).code == 0
    assert fp8tune(*command, "--world-size", "8").code == 0


TWO = "[train]\nseed = 1  # fp8tune: ignore[nothing]\n{}"
ANOTHER = "max_steps = 900  # fp8tune: ignore[{}]\n"


@pytest.mark.parametrize("name", ["nowhere", "nothing"])
def test_another_comment_is_another_finding(project, fp8tune, name):
    """Comments have no key: they are told apart by their words, and counted."""
    folder = project({"a.toml": TWO.format("")})
    only = ("--select", "unknown-ignore", "--fail-on", "note")
    command = ("lint", ".", "--baseline", "base", *only)
    assert fp8tune(*command, "--update-baseline").code == 0
    comment = "# fp8tune: ignore[nothing]"
    assert lines(folder) == [FIRST, entry("a.toml", "unknown-ignore", comment)]
    (folder / "a.toml").write_text("\n" + TWO.format(""))
    assert fp8tune(*command).code == 0
    (folder / "a.toml").write_text(TWO.format(ANOTHER.format(name)))
    assert fp8tune(*command).code == 1
    assert (
        fp8tune(*command, "--update-baseline").err == "base: 2 kept (1 new, 0 gone)\n"
    )
    assert fp8tune(*command).code == 0
    (folder / "a.toml").write_text(TWO.format(""))
    assert "no longer has unknown-ignore at # fp8tune" in fp8tune(*command).err
    assert (
        fp8tune(*command, "--update-baseline").err == "base: 1 kept (0 new, 1 gone)\n"
    )


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("no-such-thing", ""),
        ("fp8-with-tensor-paralel", "; did you mean fp8-with-tensor-parallel?"),
    ],
)
def test_an_entry_for_no_rule_is_stale(written, fp8tune, rule, hint):
    with (written / "base").open("a") as file:
        file.write(entry("a.toml", rule, "distributed.tp") + "\n")
    command = ("lint", "a.toml", "--baseline", "base")
    outcome = fp8tune(*command)
    assert (outcome.code, outcome.err.splitlines()[0]) == (
        1,
        f"stale: base:4: a.toml has an entry for {rule}, which is not a rule here"
        f"{hint}",
    )
    assert fp8tune("lint", "b.toml", "--baseline", "base").code == 0
    said = fp8tune(*command, "--update-baseline")
    assert (said.code, said.err) == (0, "base: 2 kept (0 new, 1 gone)\n")
    assert lines(written) == [FIRST, TP, WARMUP]


def test_the_setting(project, fp8tune):
    folder = project(
        {
            "pyproject.toml": '[tool.fp8tune]\nbaseline = "base"\n',
            "configs/a.toml": ERROR,
        }
    )
    assert fp8tune("lint", "configs", "--update-baseline").code == 0
    assert lines(folder) == [FIRST, TP.replace("a.toml", "configs/a.toml")]
    assert fp8tune("lint", "configs").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "base: No such file or directory; write it with --update-baseline"),
        ("", f"base:1: not an fp8tune baseline; one begins with {FIRST}"),
        (f"{FIRST}\n\nx\n", 'base:3: not of the form {"path": ..., "rule": '),
        (f"{FIRST}\n[]\n", "base:2: not of the form"),
        (f"{FIRST}\n{'[' * 100000}\n", "base:2: not of the form"),
    ],
)
def test_one_that_cannot_be_used(project, fp8tune, text, said):
    files = {"a.toml": ERROR} if text is None else {"a.toml": ERROR, "base": text}
    project(files)
    outcome = fp8tune("lint", ".", "--baseline", "base")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"fp8tune: {said}")
    assert outcome.err.count("\n") == 1


def test_one_that_cannot_be_written(project, fp8tune):
    project({"a.toml": ERROR})
    outcome = fp8tune("lint", ".", "--baseline", "no/base", "--update-baseline")
    assert (outcome.code, outcome.err) == (
        2,
        "fp8tune: no/base: No such file or directory\n",
    )


def test_update_needs_a_name(project, fp8tune):
    project({"a.toml": ERROR})
    outcome = fp8tune("lint", ".", "--update-baseline")
    assert (outcome.code, outcome.err) == (
        2,
        "fp8tune: no baseline to update: name it with --baseline FILE\n",
    )


@pytest.mark.parametrize("option", ["--unsafe-fixes", "--add-ignore"])
def test_what_it_holds_back_is_left_alone(written, fp8tune, option):
    (written / "c.toml").write_text(ERROR)
    fp8tune("lint", ".", "--baseline", "base", option)
    texts = [(written / name).read_text() for name in ("a.toml", "b.toml")]
    assert texts == [ERROR, WARNING]
    assert (written / "c.toml").read_text() != ERROR
    assert fp8tune("lint", ".", "--baseline", "base").code == 0
