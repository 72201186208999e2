"""What ``fp8tune search`` writes into which file, and what it leaves alone."""

import html
import re
import tomllib

import pytest

from fp8tune.formats.edits import unified_diff
from fp8tune.runners.replay import Replay
from fp8tune.search.write.writeback import MARK
from tests.sample import LLAMA_8B
from tests.search.replayed import CONFIG, RECORDS
from tests.search.tries import (
    AC,
    BATCH,
    BEST,
    GIVEN,
    ran,
)


def test_the_report_names_the_file_that_was_written(replay, tmp_path):
    again = "fp8tune search a.toml --budget 2h --runner replay --records r.jsonl"
    for options, command in (
        (["--diff"], f"{again}  # writes it"),
        (["--output", "b.toml"], "diff a.toml b.toml"),
        (["--in-place"], "fp8tune lint a.toml"),
    ):
        replay(RECORDS, *options)
        page = next(tmp_path.glob(".fp8tune/*/report.html")).read_text()
        assert f">{command}\n</pre>" in page


@pytest.mark.parametrize("option", ["--output", "--diff"])
def test_the_page_shows_the_diff_of_what_is_written(replay, tmp_path, option):
    """Also the line that says which prediction a trial has refuted."""
    config = f"# fp8tune: gpu=h100 world-size=1\n{LLAMA_8B}{CONFIG}"
    fits = {"peak_gib": 71.0, "more": {"capacity_gib": 79.1}}
    records = [ran(GIVEN, 100, **fits), ran(BEST, 150, **fits)]
    options = [option, "b.toml"] if option == "--output" else [option]
    done = replay(records, *options, config=config)
    page = next(tmp_path.glob(".fp8tune/*/report.html")).read_text()
    shown = page.partition('aria-label="diff">\n')[2].partition("</pre>")[0]
    shown = html.unescape(re.sub(r"</?(?:ins|del|span)>", "", shown)).rstrip()
    if option == "--diff":
        assert shown in done.out
    else:
        after = (tmp_path / "b.toml").read_bytes()
        assert shown == unified_diff("a.toml", config.encode(), after).rstrip()
    assert "] -- fp8tune search measured 71.0 of 79.1 GiB\n" in shown


def test_a_diff_does_not_spoil_json(replay):
    done = replay(RECORDS, "--diff", "--output-format", "json")
    assert done.json["output"] is None
    assert "+batch_size = 4" in done.err


def test_where_the_tuned_config_goes(replay, tmp_path):
    """Which bytes of the config change: tests/golden/search_faster.txt."""
    done = replay(RECORDS, "--diff")
    assert "+batch_size = 4" in done.out
    assert not (tmp_path / "a.tuned.toml").exists()
    for options, name in (
        ([], "a.tuned.toml"),
        (["--output", "b.toml"], "b.toml"),
        (["--in-place"], "a.toml"),
    ):
        assert (tmp_path / "a.toml").read_text() == CONFIG
        assert replay(RECORDS, *options).code == 0
        train = tomllib.loads((tmp_path / name).read_text())["train"]
        assert (train["batch_size"], train["grad_accum_steps"]) == (4, 4)


@pytest.mark.parametrize(
    ("records", "code"),
    [([ran(GIVEN, 100), ran(BEST, 80)], 0), ([ran(GIVEN, outcome="oom")], 1)],
)
@pytest.mark.parametrize(
    ("options", "left"),
    [
        ([], "a.tuned.toml"),
        (["--output", "b.toml"], "b.toml"),
        (["--output-format", "json"], "a.tuned.toml"),
        (["--diff"], ""),
        (["--in-place"], ""),
    ],
)
def test_a_config_that_was_there_before_is_left(
    replay, tmp_path, records, code, options, left
):
    path = tmp_path / (left or "a.tuned.toml")
    path.write_text(f"[train]  {MARK}another study\n")
    done = replay(records, *options)
    told = f"note: {left} is from an earlier run; this run wrote no config"
    assert done.code == code
    assert path.read_text() == f"[train]  {MARK}another study\n"
    assert ("note: " in done.err, told in done.err) == (bool(left), bool(left))


@pytest.mark.parametrize(
    ("options", "name", "text", "wrote"),
    [
        ([], "a.tuned.toml", "[train]  # mine\n", "no search"),
        (["--output", "b.toml"], "b.toml", "[train]  # mine\n", "no search"),
        (
            ["--output", "b.toml"],
            "b.toml",
            f"{MARK}from trial 3 of study b-0123abcd, for 8 GPUs\n",
            "the search of another job",
        ),
        (["--diff"], "a.tuned.toml", "[train]  # mine\n", ""),
    ],
)
def test_a_file_that_no_search_of_this_config_wrote_is_kept(
    replay, tmp_path, options, name, text, wrote
):
    path = tmp_path / name
    path.write_text(text)
    done = replay(RECORDS, *options)
    assert (done.code, path.read_text()) == (2 if wrote else 0, text)
    assert (f"{name} exists and {wrote} wrote it" in done.err) == bool(wrote)


def test_no_word_of_an_earlier_config_where_there_is_none(replay):
    assert replay([ran(GIVEN, 100), ran(BEST, 80)]).err == ""


def test_in_place_again_speaks_of_the_second_search_alone(replay, tmp_path):
    path = tmp_path / "a.toml"
    config = CONFIG.replace('= "full"\n', '= "full"  # none fits too\n')
    first = [ran(GIVEN, 100), ran((2, 0, 1, 1), 150)]
    assert replay(first, "--in-place", config=config).code == 0
    once = path.read_text()
    second = [ran((2, 0, 1, 1), 150), ran((3, 0, 1, 1), 200)]
    done = replay(second, "--in-place", config=once)
    assert (done.code, done.err) == (0, "")
    twice = path.read_text()
    values = {BATCH: 8, AC: "none", "train.grad_accum_steps": 2}
    train = tomllib.loads(twice)["train"]
    assert {key: train[key.removeprefix("train.")] for key in values} == values
    studies = {
        name
        for line in once.splitlines()
        for name in re.findall("of replay ([^;]+)", line)
    }
    assert len(studies) == 1
    assert not any(study in twice for study in studies)
    assert f"{MARK}4 -> 8" in twice
    assert f"{MARK}full -> none" not in twice


@pytest.mark.parametrize(
    "place", ["--in-place", "--output=a.toml", "--output=./a.toml"]
)
@pytest.mark.parametrize("edited", [CONFIG.replace("my model", "mine"), None])
def test_an_edit_made_during_the_search_is_kept(
    replay, tmp_path, monkeypatch, edited, place
):
    path = tmp_path / "a.toml"

    def edit(_runner):
        path.unlink() if edited is None else path.write_text(edited)

    monkeypatch.setattr(Replay, "close", edit)
    done = replay(RECORDS, place)
    assert done.code == 0
    assert (path.read_text() if path.exists() else None) == edited
    assert "batch_size = 4" in (tmp_path / "a.tuned.toml").read_text()
    assert "a.tuned.toml\n" in done.out.partition("wrote ")[2]
    assert "a.toml was changed during the search, so it was not overwritten" in done.err


def test_the_answer_is_told_where_the_config_cannot_be_written(
    replay, tmp_path, monkeypatch
):
    """The place was there when the search began."""
    monkeypatch.setattr(Replay, "close", lambda _: (tmp_path / "o").rmdir())
    (tmp_path / "o").mkdir()
    done = replay(RECORDS, "--output", "o/a.toml")
    assert done.code == 2
    assert "chosen: batch_size = 4" in done.out
    assert "report" in done.out
    assert "wrote" not in done.out
    assert "the tuned config was not written: o/a.toml: No such file" in done.err
