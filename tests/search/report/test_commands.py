"""What a page says to type next."""

import pytest

from fp8tune.search.answer import LARGER_BUDGET, NOTHING_MORE, SAME_COMMAND
from fp8tune.search.report.data import case
from fp8tune.search.report.story import story
from fp8tune.search.saved import load_study
from fp8tune.search.storage import alone_in
from tests.search.report.studies import (
    CONFIG,
    WHOLE,
    plan,
    shown,
    study,
    told,
)
from tests.search.tries import GIVEN, OTHER


@pytest.mark.parametrize(
    ("about", "commands"),
    [
        ({"output": "x/b.toml"}, ("diff a.toml x/b.toml", "fp8tune lint x/b.toml")),
        ({"output": "a.toml"}, ("fp8tune lint a.toml",)),
        ({"output": ""}, ("fp8tune search a.toml --budget 2h  # writes it",)),
        ({"output": "", "records": "ab12"}, ("fp8tune lint a.toml",)),
        (
            {"output": None},
            ("fp8tune search a.toml --budget 2h  # goes on from here",),
        ),
        (
            {"device": "cpu", "output": None},
            (
                "fp8tune search a.toml --budget 2h --gpu h200 --device cpu  "
                "# goes on from here",
                "fp8tune search a.toml --budget 2h --gpu h200  # on a GPU",
            ),
        ),
    ],
)
def test_only_a_file_that_was_written_is_named(tmp_path, about, commands):
    assert story(shown(tmp_path / ".fp8tune/s", **about)).commands == commands


def test_a_search_that_runs_is_left_to_itself(tmp_path):
    """Its folder is another's: a second search could not even begin."""
    folder = study(tmp_path / ".fp8tune/s", WHOLE[:3], output=None)
    again = ("fp8tune report s  # again: the search still runs",)
    with alone_in(folder):
        told = story(case(load_study(folder)))
    assert told.warnings == ("The search still runs. The answer may change.",)
    assert told.commands == again
    told = story(case(load_study(folder)))
    was = "The search was cut off before it told its end. The answer may change."
    assert told.warnings == (was,)
    assert told.commands == ("fp8tune search a.toml --budget 2h  # goes on from here",)


@pytest.mark.parametrize(
    ("more", "warning", "asked"),
    [
        (SAME_COMMAND, "the search was stopped before it measured", False),
        (LARGER_BUDGET, "the budget was too short to measure the best", True),
        (NOTHING_MORE, "the best settings ran once", False),
    ],
)
def test_how_a_search_ended_tells_what_goes_on(tmp_path, more, warning, asked):
    pairs = [("baseline", told(GIVEN, 100)), ("search", told(OTHER, 50))]
    page = story(shown(tmp_path / ".fp8tune/s", pairs, more=more))
    assert f"Not all is confirmed: {warning}" in page.warnings[0]
    assert ("Give a larger --budget to learn more." in page.sentences) == asked
    assert page.commands[0].endswith("goes on from here") == bool(more)


NAMELESS = CONFIG.replace("[", "[my.")


@pytest.mark.parametrize(
    ("folder", "made", "machine", "options"),
    [
        (".fp8tune/s", plan(), "NVIDIA H200", ""),
        (".fp8tune/s", plan(), "NVIDIA H100 80GB HBM3", " --gpu h200"),
        (".fp8tune/s", plan(NAMELESS), "NVIDIA H200", " --trainer kempnerforge"),
        ("mine/s", plan(), "NVIDIA H200", " --studies mine"),
    ],
)
def test_a_search_that_goes_on_is_told_what_it_was(
    project, folder, made, machine, options
):
    project()
    found = case(load_study(study(folder, [], made, machine=machine)))
    assert story(found).commands == (
        f"fp8tune search a.toml --budget 2h{options}  # goes on from here",
    )


@pytest.mark.parametrize(
    ("output", "option"),
    [("a.tuned.toml", ""), ("b.toml", " --output b.toml"), ("a.toml", " --in-place")],
)
def test_a_search_that_goes_on_has_time_and_writes_where_it_did(
    tmp_path, output, option
):
    long = [("baseline", told(GIVEN, 100, cost_s=3.9 * 3600))]
    assert story(shown(tmp_path / ".fp8tune/s", long, output=output)).commands == (
        f"fp8tune search a.toml --budget 5h{option}  # goes on from here",
    )
