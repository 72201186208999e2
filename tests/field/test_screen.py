"""What people look at during and after a search: table, answer and page."""

import html
import io
import json
import re
import shlex

import pytest

pytest.importorskip("rich")

from rich.console import Console

from fp8tune.job import Target
from fp8tune.search.answer.answer import Ending
from fp8tune.search.answer.stored import answer_of
from fp8tune.search.live import Board
from fp8tune.search.plan import Plan, config_to_search
from fp8tune.search.saved_study import load_study
from fp8tune.search.say import say, say_next
from fp8tune.search.stop import Stop
from fp8tune.search.storage import open_storage
from fp8tune.search.study import Study
from fp8tune.search.write.output import display
from fp8tune.search.write.writeback import MARK
from fp8tune.trials.space import Knob, Space
from tests.report.studies import told
from tests.search.replayed import RECORDS, answered
from tests.search.tries import BEST, BF16, CONFIG, GIVEN, OTHER, SPACE, ran, trials


def board_of(known, space=SPACE, config=CONFIG):
    read = config_to_search("a.toml", config.encode(), Target("", 1), "kempnerforge")
    study = Study(space)
    study.trials = list(known)
    return Board(Plan(read, space, GIVEN), study)


def drawn(board, width=80, height=40):
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(board)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def words(lines):
    return [" ".join(line.split()) for line in lines]


def changes(lines):
    """What the rows of trials say against the baseline, by the trial's number."""
    rows = (
        re.match(r" *(\d+) .*?(baseline|[-+][\d.,]+ %)?(?: +\d+ s)?$", x) for x in lines
    )
    return {int(row[1]): row[2] for row in rows if row}


# B10: the live table

LONG = Space(
    [
        Knob("train.batch_size", (8, 16, 32), "micro_batch"),
        Knob("train.activation_checkpointing", ("none", "selective", "full"), "ac"),
        Knob("train.compile_model", (False, True), "compile"),
        Knob("train.mixed_precision", ("bf16", "fp8"), "precision", frozen=True),
    ]
)
ALIKE = [(2, 0, 1, 1), (2, 1, 1, 1), (2, 2, 1, 1), (2, 0, 0, 1), (2, 0, 1, 0)]
"""Settings whose full names begin alike for 40 characters."""


@pytest.mark.parametrize("width", [80, 72, 60, 40])
def test_settings_are_told_apart(width):
    tried = [("baseline", ran(GIVEN, 10_000, space=LONG))]
    tried += [("search", ran(p, 12_000, space=LONG)) for p in ALIKE]
    lines = drawn(board_of(trials(*tried, space=LONG), LONG), width)
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if "…" in line]
    if width >= 72:
        rows = [line for line in words(lines) if re.match(r"[1-5] ", line)]
        assert [row[2 : row.index(" 12,000")] for row in rows] == [
            "batch 32, AC none",
            "batch 32",
            "batch 32, AC full",
            "batch 32, AC none, eager",
            "batch 32, AC none, bf16",
        ]


DRIFT = [
    ("baseline", ran(GIVEN, 10_000)),
    ("search", ran(BEST, 15_000)),
    ("search", ran(OTHER, 12_000)),
    ("confirm", ran(BEST, 12_000)),
    ("confirm", ran(GIVEN, 8_000)),
    ("confirm", ran(BEST, 12_000)),
]
"""The GPU becomes slower by a fifth before the confirmation."""
AGAINST = {0: "baseline", 1: "+50.0 %", 2: "+20.0 %", 3: "+20.0 %", 4: "baseline"}


def test_a_trial_is_compared_with_the_baseline_measured_last_before_it():
    assert changes(drawn(board_of(trials(*DRIFT)))) == {**AGAINST, 5: "+50.0 %"}


def test_a_row_never_changes_when_trials_are_added():
    every = trials(*DRIFT, ("confirm", ran(GIVEN, 9_000)), ("search", ran(BF16, 7_000)))
    before = {}
    for count in range(1, len(every) + 1):
        now = changes(drawn(board_of(every[:count])))
        assert {number: now[number] for number in before} == before
        before = now


def test_a_resume_with_a_larger_budget_changes_no_row():
    """The earlier confirmation then counts as a part of the search."""
    first = [t._replace(budget_s=600.0) for t in trials(*DRIFT)]
    more = trials(*DRIFT, ("confirm", ran(GIVEN, 7_000)), ("confirm", ran(BEST, 7_700)))
    again = [t._replace(process=1, budget_s=7200.0) for t in more[6:]]
    rows = changes(drawn(board_of([*first, *again])))
    assert rows == {**AGAINST, 5: "+50.0 %", 6: "baseline", 7: "+10.0 %"}


PAIRS = [
    ("baseline", ran(GIVEN, 10_100)),
    ("search", ran(BEST, 15_300)),
    ("confirm", ran(BEST, 15_000)),
    ("confirm", ran(GIVEN, 10_040)),
    ("confirm", ran(BEST, 15_120)),
    ("confirm", ran(GIVEN, 9_960)),
]


def test_the_numbers_of_the_answer_stand_below_the_trials(replay, tmp_path):
    _, said = answered(replay, RECORDS)
    (folder,) = (tmp_path / ".fp8tune").glob("*/")
    study = load_study(str(folder))
    made = Study(study.plan.space)
    made.trials = list(study.trials)
    lines = words(drawn(Board(study.plan, made)))
    assert "best batch 4 150 35.0 +50.0 %" in lines
    assert "your config 100 baseline" in lines
    assert said["tokens_per_second"]["chosen"]["value"] == 150


@pytest.mark.parametrize(
    ("known", "best"), [(PAIRS[:3], "inconclusive"), (PAIRS, "+50.6 %")]
)
def test_below_two_pairs_of_runs_the_best_is_inconclusive(known, best):
    (line,) = [x for x in words(drawn(board_of(trials(*known)))) if "best" in x]
    assert line.endswith(best)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_are_wrapped_at_words_on_a_terminal_alone(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = (
        "faster: +1.9 % tokens/s (+0.9 to +2.8 %), batch_size = 15, "
        "activation_checkpointing = selective, see /a/path/that/is/longer/than/a/line"
    )
    terminal, pipe = Terminal(), io.StringIO()
    say(text, terminal)
    say(text, pipe)
    lines = terminal.getvalue().splitlines()
    assert pipe.getvalue() == f"{text}\n"
    assert " ".join(lines) == text
    assert not any(line.startswith("%") for line in lines)
    assert all(len(line) <= columns or " " not in line for line in lines)


@pytest.mark.parametrize("columns", [40, 80])
def test_the_next_command_is_wrapped_as_a_shell_joins_it(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    command = (
        "fp8tune search configs/a.toml --budget 2h --device cpu --workers 2  "
        "# continues: 2 min of it are spent"
    )
    terminal, pipe = Terminal(), io.StringIO()
    say_next(command, terminal)
    say_next(command, pipe)
    assert pipe.getvalue() == f"next: {command}\n"
    assert max(map(len, terminal.getvalue().splitlines())) <= columns
    joined = terminal.getvalue().replace("\\\n", "").removeprefix("next: ")
    assert shlex.split(joined, comments=True) == shlex.split(command, comments=True)
    assert "# continues: 2 min of it" in terminal.getvalue()


def test_an_interrupt_is_shown_in_the_table(monkeypatch):
    """A line of another writer would break the table."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    board = board_of(trials(*DRIFT))
    out, stop = Terminal(), Stop()
    with display(board.plan, board.study, out) as watch:
        stop.show = watch.stopping
        with pytest.raises(KeyboardInterrupt):
            stop._on_signal(2, None)
    board.stop("stopping with the best so far")
    board._left = 60.0
    assert drawn(board)[-1] == "stopping with the best so far"
    board.end()
    assert drawn(board)[-1].startswith("ended with ")


# B11: one answer


def comments(text):
    """The comments of a search, joined, without their marks."""
    own = [x.strip().removeprefix(MARK) for x in text.splitlines() if MARK in x]
    return " ".join(own), own


def page_of(tmp_path):
    return next((tmp_path / ".fp8tune").glob("*/report.html")).read_text()


def typed_next(page):
    (block,) = re.findall(r'aria-label="commands">(.*?)</pre>', page, re.DOTALL)
    return html.unescape(block).strip()


LOW = [ran(GIVEN, 10_000), ran(BEST, 10_300)]
FP8_LOSES = [ran(GIVEN, 10_000), ran(BEST, 12_000), ran(BF16, 14_000)]
FP8_LOSES += [ran((2, 1, 1, 0), 16_000)]
OOM = [ran(GIVEN, outcome="oom")]
AGAIN = "fp8tune search a.toml --budget {} --runner replay --records r.jsonl"


@pytest.mark.parametrize(
    ("records", "budget", "command"),
    [
        (RECORDS, "2h", "diff a.toml a.tuned.toml"),
        (LOW, "4m", "fp8tune search a.toml --budget "),
        (FP8_LOSES, "2h", f"{AGAIN.format('2h')} --allow precision"),
        (OOM, "2h", "fp8tune estimate a.toml"),
    ],
)
def test_terminal_json_report_and_comments_name_one_command(
    replay, tmp_path, records, budget, command
):
    out = replay(records, budget=budget).out
    (typed,) = re.findall(r"^next: (.*)$", out, re.MULTILINE)
    assert out.splitlines()[-1] == f"next: {typed}"
    assert typed.startswith(command)
    assert typed_next(page_of(tmp_path)) == typed
    tuned = tmp_path / "a.tuned.toml"
    assert (
        not tuned.exists() or " ".join(typed.split()) in comments(tuned.read_text())[0]
    )
    _, said = answered(replay, records, budget=budget)
    assert said["next"] == [typed]


def test_no_comment_is_cut(replay, tmp_path):
    """A long note of a record, and long values."""
    note = "a long description of how this was measured " * 5
    more = {"extrapolated": note, "environment": "H100 " * 20, "synthetic_data": True}
    config = CONFIG.replace("grad_accum_steps = 8", "grad_accum_steps = 3")
    records = [ran(GIVEN, 100, more=more), ran(BEST, 150, more=more)]
    replay(records, config=config)
    text, lines = comments((tmp_path / "a.tuned.toml").read_text())
    assert not [line for line in lines if line.endswith("...")]
    assert "as near as it gets; check the schedule" in text
    assert note.strip() in text


def test_terminal_comments_and_page_round_alike(replay, tmp_path):
    """Speeds, and the highest peak of all runs of the chosen setting."""
    best = [ran(BEST, v, peak_gib=p) for v, p in ((15_301.4, 7.126), (15_011.7, 7.084))]
    out = replay([ran(GIVEN, 10_021.6, peak_gib=3.5), *best], budget="2h").out
    text, _ = comments((tmp_path / "a.tuned.toml").read_text())
    (said,) = re.findall(r"^faster: .*$", out, re.MULTILINE)
    page = page_of(tmp_path)
    (row,) = re.findall(r"<tr><td>chosen</td>(.*?)</tr>", page)
    (given,) = re.findall(r"<tr><td>your config[^<]*</td>(.*?)</tr>", page)
    before, after = re.findall(r"([\d,]+\d) -> ([\d,]+\d)", said)[0]
    gain = re.findall(r"\+[\d.]+ %", said)[0]
    assert said in text
    assert f"<td>{after} (" in row
    assert f"<td>{gain} (" in row
    assert f"<td>{before} (" in given
    assert "peak memory 7.13 GiB" in text
    assert "<td>7.13</td>" in row
    ratio = float(after.replace(",", "")) / float(before.replace(",", ""))
    assert f"{100 * (ratio - 1):+.1f} %" == gain


def test_the_figures_beside_each_other_have_the_stated_gain(tmp_path):
    """Of several noisy pairs, the middles of the runs alone do not."""
    pairs = [(10_000, 10_190), (9_800, 10_020), (10_150, 10_160), (9_900, 10_150)]
    study = Study(SPACE, str(tmp_path / "s"))
    read = config_to_search(
        "a.toml", CONFIG.encode(), Target("h200", 1), "kempnerforge"
    )
    plan = Plan(read, SPACE, GIVEN)
    study.describe(plan.about(device="cuda", allow=[], output=""))
    study.add("baseline", told(GIVEN, 10_000))
    study.add("search", told(BEST, 10_200))
    for theirs, mine in pairs:
        study.add("confirm", told(BEST, mine))
        study.add("confirm", told(GIVEN, theirs))
    measured = answer_of(load_study(str(tmp_path / "s")), Ending()).measured
    ratio = measured.chosen.value / measured.baseline.value
    assert ratio == pytest.approx(measured.gain.value)


def test_a_study_that_is_read_has_the_answer_of_its_search(replay, tmp_path):
    """Also where no losses can be compared, so that FP8 is chosen without."""
    bf16 = CONFIG.replace('"fp8"', '"bf16"')
    _, said = answered(replay, RECORDS, "--allow", "precision", config=bf16)
    (folder,) = (tmp_path / ".fp8tune").glob("a-*")
    study = load_study(str(folder))
    answer = answer_of(study, Ending())
    assert study.plan.space.values(answer.chosen) == said["knobs"]
    assert said["knobs"]["train.mixed_precision"] == "fp8"
    assert answer.verdict == said["verdict"]


def test_the_whole_tuned_config_can_be_copied_from_the_page(replay, tmp_path):
    replay(RECORDS)
    (block,) = re.findall(
        r'aria-label="tuned config">\n(.*?)</pre>', page_of(tmp_path), re.DOTALL
    )
    assert (
        html.unescape(block).strip() == (tmp_path / "a.tuned.toml").read_text().strip()
    )


def test_the_page_of_a_search_without_success_has_no_empty_plots(replay, tmp_path):
    replay(OOM)
    page = page_of(tmp_path)
    assert "<svg" not in page
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert titles[0] == "Every trial, the fastest first"


@pytest.mark.parametrize(
    ("options", "name"),
    [((), "tokens/s"), (("--objective", "tokens-per-joule"), "tokens/J")],
)
def test_the_dashboard_shows_a_named_objective(replay, tmp_path, options, name):
    more = {"tokens_per_joule": 2.0}
    for _ in range(2):  # and again when it is resumed
        replay([ran(GIVEN, 100, more=more), ran(BEST, 150, more=more)], *options)
    (journal,) = (tmp_path / ".fp8tune").glob("*/study.journal")
    (study,) = open_storage(str(journal), create=False).get_all_studies()
    assert study.system_attrs["study:metric_names"] == [name]
    lines = map(json.loads, journal.read_text().splitlines())
    assert sum("study:metric_names" in str(line) for line in lines) == 1
