"""What a report shows of a study, as plain data."""

import re

import pytest

from fp8tune.report.data import (
    headline,
    key_value,
    read_report,
    sentences,
    warnings,
    why_not,
)
from fp8tune.report.html import commands, draw_plots
from fp8tune.report.summary import summarize
from fp8tune.report.tables import figures_table, trial_table
from fp8tune.search.answer.answer import LARGER_BUDGET, SAME_COMMAND, Ending
from fp8tune.search.labels import setting_label
from fp8tune.search.saved_study import load_study
from fp8tune.search.storage import BEAT, alone_in
from fp8tune.search.study import Study
from fp8tune.trials.space import Knob
from tests.each import each
from tests.report.studies import (
    BEST_BF16,
    CUT_OFF,
    FAILED,
    LARGER,
    WHOLE,
    confirmed,
    report_of,
    study,
    told,
)
from tests.search.losses.runs import learned, seeds
from tests.search.tries import BEST, BF16, GIVEN, KNOBS, OTHER, SPACE, but, planned, ran

SLOWED = [
    *WHOLE[:5],
    *confirmed(told(BEST, 130), told(BEST_BF16, 100, fp8=False), told(GIVEN, 88)),
]
"""A machine that became slower after the search."""


@pytest.mark.parametrize("rehearsal", [False, True])
def test_settings_are_on_the_scale_of_the_confirmation(tmp_path, rehearsal):
    """What was measured only before it is scaled down as the chosen setting was."""
    trials = [(stage, but(r, rehearsal=rehearsal)) for stage, r in SLOWED]
    report = report_of(tmp_path / "s", trials)
    values, scale = (
        {s.point: round(key_value(s), 1) for s in report.settings},
        130 / 152,
    )
    assert "are scaled down" in draw_plots(report)[0].note
    assert {s.point for s in report.settings if s.is_scaled} == {BF16, OTHER}
    assert values == {
        GIVEN: 88.0,
        BF16: round(90 * scale, 1),
        BEST: 130.0,
        OTHER: round(110 * scale, 1),
        LARGER: 0.0,
        BEST_BF16: 100.0,
    }


def test_no_figure_is_above_all_runs_of_its_setting(tmp_path):
    """The runner-up ran beside a slow run of the chosen setting."""
    trials = [
        ("baseline", told(GIVEN, 1852)),
        ("search", told(BEST, 3600)),
        ("search", told(OTHER, 2842)),
        ("search", told(LARGER, 2032)),
        ("confirm", told(BEST, 3786)),
        ("confirm", told(GIVEN, 1722)),
        ("confirm", told(OTHER, 3427)),
        ("confirm", told(BEST, 2182)),
    ]
    report = report_of(tmp_path / "s", trials)
    values = {s.point: round(key_value(s)) for s in report.settings}
    assert values == {BEST: 3786, GIVEN: 1722, OTHER: 3427, LARGER: 2032}
    assert not any(s.is_scaled for s in report.settings)
    assert report.setting(report.chosen).on_frontier
    runner_up = report.setting(OTHER)
    assert runner_up.vs_chosen.value == pytest.approx(3427 / 2182)
    memory, *_ = draw_plots(report)
    shown = [(row[1], *row[4:6]) for row in memory.rows]
    assert shown == [
        ("chosen", "3,786", "-"),
        ("runner-up", "3,427", "inconclusive"),
        ("", "2,032", "-"),
        ("your config", "1,722", "inconclusive"),
    ]
    figures = {row[0]: row[2:5] for row in figures_table(report).rows}
    assert figures["runner-up"] == ("3,427", "inconclusive", "inconclusive")


def test_terminal_config_and_page_name_one_speed(replay, tmp_path):
    """The speed of the chosen setting, wherever it stands."""
    out = replay(budget="2h").out
    (folder,) = (tmp_path / ".fp8tune").glob("*/")
    report = read_report(load_study(str(folder)))
    said = re.findall(r"-> ([\d,]*\d)", out)[0]
    tuned = (tmp_path / "a.tuned.toml").read_text()
    memory, *_ = draw_plots(report)
    chosen = next(row for row in memory.rows if row[1] == "chosen")
    assert f"-> {said}" in tuned
    assert f"-> {said}" in headline(report)
    assert f": {said} tokens/s in" in memory.title
    assert chosen[4].startswith(f"{said} (")


UNFIT = "94.1 % of the GPU's memory reserved, over 92 %"


@pytest.mark.parametrize(
    ("trials", "outcome", "why"),
    [
        ([told(LARGER, 190, reserved_gib=131.5)], "ok", UNFIT),
        (
            [told(LARGER, 190), ran(LARGER, outcome="oom")],
            "ok",
            "failed in another run: out of memory",
        ),
        ([ran(LARGER, outcome="oom")], "oom", ""),
    ],
)
def test_a_setting_that_may_not_be_chosen(tmp_path, trials, outcome, why):
    ran_before = [(stage, record) for stage, record in WHOLE if record.ok]
    every = [*ran_before, *(("search", record) for record in trials)]
    report = report_of(tmp_path / "s", every)
    setting = next(s for s in report.settings if s.point == LARGER)
    assert (setting.outcome, why_not(setting)) == (outcome, why)
    assert (setting.is_eligible, setting.on_frontier) == (False, False)
    assert report.chosen == BEST


def test_what_diverges_may_not_be_chosen(tmp_path):
    runs = [*seeds(), *(run._replace(nan=True) for run in seeds("fp8"))]
    losses = [("stability", learned(run)) for run in runs]
    report = report_of(tmp_path / ".fp8tune/s", [*WHOLE, *losses])
    ran_ok = [s for s in report.settings if s.value]
    shown = {(report.precision(s), why_not(s)) for s in ran_ok}
    assert shown == {("fp8", "FP8 diverges"), ("bf16", "")}
    assert not any(s.on_frontier for s in ran_ok)
    assert headline(report) == (
        "No setting is proposed: FP8 diverges where bf16 does not"
    )
    again = ["fp8tune search a.toml --budget 2h --allow precision"]
    assert commands(report) == again


def test_what_a_smaller_budget_cut_off_does_not_count(tmp_path):
    """As in the search: nothing in the trial spoke against its setting."""
    cut = {"cut_off": True, "budget_s": 300.0}
    trials = [WHOLE[0], ("search", ran(BEST, outcome="compile"), cut), *WHOLE[2:]]
    last = (*trials[-1], {"budget_s": 7200.0})
    report = report_of(tmp_path / "s", [*trials[:-1], last])
    assert report.chosen == BEST
    assert report.setting(BEST).is_eligible


def test_a_cut_off_trial_did_not_fail(tmp_path):
    lost = ("search", ran(LARGER, outcome="hang"), CUT_OFF)
    report = report_of(tmp_path / "s", [*WHOLE[:4], lost])
    setting = next(s for s in report.settings if s.point == LARGER)
    table = trial_table(report)
    assert setting.outcome == "cut-off"
    assert table.rows[-1][3] == "cut off by the end of the budget"
    assert table.classes[-1] == "cut-off"


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        (KNOBS[2], False, "eager"),
        (Knob("a.b", (1, 2)), 2, "b 2"),
        (Knob("a.b", ("x",)), "x", "x"),
        (Knob("a.b", (None,)), None, "b not set"),
        (Knob("a.b", ("\u202e",)), "\u202e", "\\u202e"),
        (Knob("a.b", ("x" * 99,)), "x" * 99, "x" * 20 + " ..."),
    ],
)
def test_labels(knob, value, words):
    assert setting_label([knob], (knob.values.index(value),)) == words


MINE, MINE_BF16 = told(GIVEN, 80), told(BF16, 100, fp8=False)
STAYS = [("baseline", MINE), ("search", told(OTHER, 50)), *confirmed(MINE)]


@pytest.mark.parametrize(
    ("trials", "line"),
    [
        ([], "No trial has ended yet"),
        (FAILED, "No trial succeeded"),
        (WHOLE, "Faster: +50.0 % tokens/s (+48.4 to +51.6), 100 -> 150, 2 pairs of "),
        (STAYS, "Your config is already the best among the 2 settings tried (of 16)"),
        ([("baseline", MINE), *confirmed(MINE)], "No other setting ran"),
        ([("baseline", MINE)], "Inconclusive: no other setting ran"),
        (WHOLE[:3], "Inconclusive (no pair of runs): 100 -> 152 tokens/s"),
        (
            [("baseline", ran(GIVEN, outcome="oom")), ("search", told(OTHER, 50))],
            "Your config failed: out of memory; the chosen setting reaches 50 tokens/s",
        ),
    ],
)
def test_the_headline_is_the_answer(tmp_path, trials, line):
    assert headline(report_of(tmp_path / "s", trials)).startswith(line)


PARTED = [*WHOLE[:5], *confirmed(told(BEST, 149), told(GIVEN, 80))]
"""The baseline ran at 80 % of its speed, the others as before."""


@pytest.mark.parametrize(
    ("trials", "about", "first"),
    [
        (WHOLE, {}, []),
        (WHOLE, {"device": "cpu"}, ["A rehearsal on a CPU"]),
        (WHOLE, {"records": "ab12"}, ["A replay of recorded trials"]),
        (WHOLE, {"output": None}, ["The search was cut off before its end. "]),
        (SLOWED, {}, ["The machine's speed changed during the search: settings"]),
        (PARTED, {}, ["The machine's speed changed during the search: settings"]),
        (
            [
                *WHOLE,
                ("confirm", told(BEST, 150, more={"extrapolated": "rank 0 of 8"})),
            ],
            {},
            ["Extrapolated, not measured whole (1 of 12 trials): rank 0 of 8."],
        ),
    ],
)
def test_what_must_be_known_first(tmp_path, trials, about, first):
    every = list(warnings(report_of(tmp_path / ".fp8tune/s", trials, **about)))
    assert len(every) == len(first)
    assert all(map(str.startswith, every, first))


def joules(point, speed, each):
    return told(point, speed, more={"tokens_per_joule": each})


SAVING = [
    ("baseline", joules(GIVEN, 100, 1.0)),
    ("bf16-baseline", joules(BF16, 60, 0.8)),
    ("search", joules(BEST, 90, 1.3)),
    *confirmed(
        joules(BEST, 90, 1.3), joules(GIVEN, 100, 1.0), joules(BEST_BF16, 70, 0.9)
    ),
]


def test_tokens_per_joule(tmp_path):
    """Plots are of the objective; the table of trials has tokens/s too."""
    report = report_of(tmp_path / "a", SAVING, objective="tokens-per-joule")
    chosen = report.setting(report.chosen)
    assert (chosen.point, report.unit) == (BEST, "tokens/J")
    assert round(chosen.value.value, 2) == 1.3
    assert "+30.0 % tokens per joule (+29.5 to +30.5)" in headline(report)
    assert {row[5] for row in trial_table(report).rows} == {
        "0.800",
        "0.900",
        "1.00",
        "1.30",
    }


@pytest.mark.parametrize(
    ("about", "typed"),
    [
        ({"output": "x/b.toml"}, ["diff a.toml x/b.toml"]),
        ({"output": "a.toml"}, ["fp8tune lint a.toml"]),
        ({"output": ""}, ["fp8tune search a.toml --budget 2h  # writes it"]),
        (
            {"output": "", "options": {"budget": "3h", "records": "r.jsonl"}},
            ["fp8tune search a.toml --budget 3h --records r.jsonl  # writes it"],
        ),
        (
            {"output": None},
            ["fp8tune search a.toml --budget 2h  # continues: 11 min of it are spent"],
        ),
        (
            {
                "device": "cpu",
                "output": None,
                "options": {"gpu": "h200", "device": "cpu"},
            },
            [
                "fp8tune search a.toml --budget 2h --gpu h200 --device cpu  "
                "# continues: 11 min of it are spent",
            ],
        ),
        (
            {"device": "cpu", "options": {"gpu": "h200", "device": "cpu"}},
            ["fp8tune search a.toml --budget 2h --gpu h200  # on a GPU"],
        ),
    ],
)
def test_next_commands(tmp_path, about, typed):
    report = report_of(tmp_path / ".fp8tune/s", **about)
    assert commands(report) == typed


def test_a_search_that_runs_is_left_alone(tmp_path, monkeypatch):
    """Its folder is locked: a second search could not even begin."""
    monkeypatch.chdir(tmp_path)
    folder = study(".fp8tune/s", WHOLE[:3], output=None)
    with alone_in(folder):
        report = read_report(load_study(folder))
    assert list(warnings(report)) == [
        "The search is still running. The answer may change."
    ]
    again = ["fp8tune report s  # again: the search is still running"]
    assert commands(report) == again


def test_options_that_continue_the_same_search(tmp_path):
    kept = {"gpu": "h200", "allow": ["warmup", "odd $(x)"], "in_place": True}
    report = report_of(tmp_path / "mine/s", [], options=kept)
    assert commands(report) == [
        "fp8tune search a.toml --budget 2h --gpu h200 --allow warmup "
        "--allow 'odd $(x)' --in-place  # continues: 0 s of it are spent"
    ]


def test_a_search_that_goes_on_has_time(tmp_path):
    long = [("baseline", told(GIVEN, 100, cost_s=3.9 * 3600))]
    report = report_of(tmp_path / "s", long)
    again = "fp8tune search a.toml --budget 5h  # continues: 3 h 54 min of it are spent"
    assert commands(report) == [again]


def test_the_next_command_has_the_one_budget_that_is_enough(tmp_path):
    """For the verdict and for the comparison of losses."""
    ending = Ending(LARGER_BUDGET, 900.0, "no time", 1800.0)
    report = report_of(tmp_path / "s", WHOLE[:3], ending=ending)
    lines = [*sentences(report), *commands(report)]
    assert [line for line in lines if "--budget" in line] == [
        "A verdict takes 2 pairs of neighbouring confirmation runs; --budget 30m "
        "should settle it.",
        "Stability not checked: no time; --budget 30m is enough for it.",
        "fp8tune search a.toml --budget 30m  # continues: 3 min of it are spent",
    ]


def test_who_ran_each_trial_is_shown_for_workers(tmp_path):
    by = [{"worker": "vm GPU 0"}, {"worker": "<b>\u202e"}, {}]
    trials = [(*trial, more) for trial, more in zip(WHOLE[:3], by, strict=True)]
    table = trial_table(report_of(tmp_path / "s", trials))
    assert table.head[-3:] == ("cost", "worker", "message")
    shown = {row[0]: row[-2] for row in table.rows}
    assert shown == {"0": "vm GPU 0", "1": "<b>\\u202e", "2": "-"}
    assert len(table.head) == len(table.rows[0])


@pytest.mark.parametrize(
    ("kept", "about", "typed"),
    [
        (
            {"storage": "sqlite:///x.db", "workers": 0, "heartbeat": "20s"},
            {},
            [
                "fp8tune search a.toml --budget 2h --storage sqlite:///x.db "
                "--workers 0 --heartbeat 20s  # continues: 11 min of it are spent"
            ],
        ),
        (
            {"storage": "postgresql://me:***@db", "slurm": "partition=gpu,gpus=1"},
            {},
            [
                "export FP8TUNE_STORAGE='postgresql://me:***@db'  # with its password",
                "fp8tune search a.toml --budget 2h --slurm partition=gpu,gpus=1  "
                "# continues: 11 min of it are spent",
            ],
        ),
        (
            {"device": "cpu", "workers": 2},
            {"device": "cpu"},
            [
                "fp8tune search a.toml --budget 2h --device cpu --workers 2  "
                "# continues: 11 min of it are spent"
            ],
        ),
        (
            {"device": "cpu", "workers": 2, "slurm": "gpus=1"},
            {"device": "cpu"},
            [
                "fp8tune search a.toml --budget 2h --device cpu --workers 2 --slurm "
                "gpus=1  # continues: 11 min of it are spent"
            ],
        ),
        (
            {"device": "cpu", "workers": 2},
            {"device": "cpu", "output": ""},
            ["fp8tune search a.toml --budget 2h  # on a GPU"],
        ),
        (
            {"device": "cpu", "workers": 2, "slurm": "gpus=1"},
            {"device": "cpu", "output": ""},
            [
                "fp8tune search a.toml --budget 2h --workers 2 --slurm gpus=1  # on a "
                "GPU"
            ],
        ),
    ],
)
def test_commands_of_a_search_on_workers_can_be_typed(tmp_path, kept, about, typed):
    report = report_of(tmp_path / "s", options=kept, **{"output": None, **about})
    assert commands(report) == typed


def test_the_report_of_a_search_in_a_database_is_found_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = {"storage": "sqlite:///x.db", "workers": 8}
    folder = study("other/.fp8tune/s", WHOLE[:3], output=None, options=kept)
    with alone_in(folder):
        report = read_report(load_study(folder))
    assert commands(report) == [
        "fp8tune report other/.fp8tune/s --storage sqlite:///x.db  "
        "# again: the search is still running"
    ]


@each(
    ("ended", "state"),
    [
        ({"output": None}, "stopped"),
        ({"ending": Ending(SAME_COMMAND)}, "interrupted"),
        ({"ending": Ending(LARGER_BUDGET)}, "finished"),
    ],
)
def test_how_a_search_ended(tmp_path_factory, ended, state):
    folder = study(tmp_path_factory.mktemp("studies") / "s", WHOLE[:3], **ended)
    assert summarize(folder).state == state


def test_a_search_runs_while_one_of_its_workers_lives(tmp_path):
    """Its command was killed."""
    folder = study(tmp_path / ".fp8tune/s", WHOLE[:3], output=None)
    worker = Study(SPACE, folder, beat_s=0.1)
    number = worker.ask(planned(BEST, worker="vm GPU 0"))
    with worker.beating(number):
        assert summarize(folder).state == "running"
        assert read_report(load_study(folder)).is_running
    trial = worker.optuna.trials[number]._trial_id
    worker.optuna._storage.set_trial_system_attr(trial, BEAT, 1.0)
    assert summarize(folder).state == "stopped"
