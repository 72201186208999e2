"""The live table: what it says of a study, at any width, and when it is used."""

import io

import pytest

pytest.importorskip("rich")

from rich.console import Console

from fp8tune.job import Target
from fp8tune.search.live import Board
from fp8tune.search.loop import Event
from fp8tune.search.plan import Plan, config_to_search
from fp8tune.search.study import Study
from fp8tune.search.write.output import display
from fp8tune.trials.order import PlannedTrial
from tests.search.losses.runs import curve, learned
from tests.search.tries import (
    BEST,
    BF16,
    GIVEN,
    OTHER,
    SPACE,
    but,
    ran,
    trials,
)

CONFIG = "[train]\nbatch_size = 2\nmixed_precision = 'fp8'\n[scheduler]\n"
TRIALS = trials(
    ("baseline", ran(GIVEN, 10_000, peak_gib=20.04, more={"capacity_gib": 79.1})),
    ("bf16-baseline", ran(BF16, 9_000, peak_gib=20.0)),
    ("search", ran(OTHER, outcome="oom", cost_s=30.0)),
    ("search", ran(BEST, 15_000, peak_gib=35.0)),
    ("confirm", ran(BEST, 14_900)),
)
BASELINE = PlannedTrial(GIVEN, "baseline", "baseline")
CONFIRMATION = PlannedTrial(GIVEN, "confirm", "confirmation run")


@pytest.fixture
def plan():
    config = config_to_search("a.toml", CONFIG.encode(), Target("", 1))
    return Plan(config, SPACE, GIVEN)


def study_of(known):
    study = Study(SPACE)
    study.trials = list(known)
    return study


def drawn(board, width=100, height=40):
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(board)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_whole_table(plan):
    clock = iter([0.0, 10.0, *[52.0] * 9])
    board = Board(plan, study_of(TRIALS), lambda: next(clock))
    board.take(Event(7, CONFIRMATION, None, 3600.0))
    board.hear({"stage": "first_step"})
    board.hear({"step": 3, "ms": 1.0})
    lines = [" ".join(line.split()) for line in drawn(board)]
    assert lines == [
        "setting tokens/s peak GiB vs baseline time",
        "0 your config 10,000 20.0/79 baseline 60 s",
        "1 bf16 9,000 20.0 -10.0 % 60 s",
        "2 AC none out of memory 30 s",
        "3 batch 4 15,000 35.0 +50.0 % 60 s",
        "4 batch 4 (confirm) 14,900 +49.0 % 60 s",
        "7 your config step 3 42 s",
        "",
        "best batch 4 15,000 35.0 inconclusive",
        "your config 10,000 baseline",
        "59 min left; trying: confirmation run",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("height", [3, 10, 50])
@pytest.mark.parametrize("count", [0, 1, 5, 200])
def test_it_fits_the_terminal(plan, width, height, count):
    board = Board(plan, study_of((TRIALS * 40)[:count]))
    lines = drawn(board, width, height)
    assert max(map(len, lines)) <= width
    assert any(line.startswith("best") for line in lines)
    if width >= 80 and height >= 10:
        assert len(lines) < height


def test_a_narrow_terminal_keeps_the_figures(plan):
    more = {"capacity_gib": 139.8}
    long = ran((3, 0, 0, 0), 20_000, peak_gib=70.0, more=more)
    lines = drawn(Board(plan, study_of([*TRIALS, *trials(("search", long))])), 80)
    head, *_, last = lines[:7]
    for name in ("setting", "tokens/s", "peak GiB", "vs baseline", "time"):
        assert name in head
    for figure in ("batch 8, AC none, eager, bf16", "20,000", "70.0/140", "+100.0 %"):
        assert figure in last


def test_the_table_by_tokens_per_joule(plan):
    """The faster setting is the worse one there; without watts there is none."""
    tried = trials(
        ("baseline", ran(GIVEN, 10_000, more={"tokens_per_joule": 20.0})),
        ("search", ran(BEST, 15_000, more={"tokens_per_joule": 10.0})),
        ("search", ran(OTHER, 12_000)),
    )
    board = Board(plan, study_of(tried), objective="tokens-per-joule")
    lines = [" ".join(line.split()) for line in drawn(board)]
    assert lines[:7] == [
        "setting tokens/J peak GiB vs baseline time",
        "0 your config 20.0 baseline 60 s",
        "1 batch 4 10.0 -50.0 % 60 s",
        "2 AC none watts unknown 60 s",
        "",
        "best your config 20.0 baseline",
        "next batch 4 10.0 inconclusive",
    ]


def test_runs_for_their_losses_have_a_loss_and_no_speed(plan):
    compared = trials(
        ("stability", learned(curve("bf16"))),
        ("stability", learned(curve("fp8", nan=True))),
    )
    board = Board(plan, study_of(compared))
    lines = [" ".join(line.split()) for line in drawn(board)]
    assert lines[1:3] == [
        "0 batch 4, bf16 (losses) loss 2.995 10 s",
        "1 batch 4 (losses) lost its loss 10 s",
    ]


@pytest.mark.parametrize(
    ("known", "ends"),
    [
        ([], ["best none yet", "waiting; 0 trials so far"]),
        (
            TRIALS[:1],
            ["best your config 10,000 20.0/79 baseline", "waiting; 1 trial so far"],
        ),
    ],
)
def test_while_no_event_has_come(plan, known, ends):
    """Before the first trial, or while another process coordinates."""
    lines = drawn(Board(plan, study_of(known)))[-2:]
    assert [" ".join(line.split()) for line in lines] == ends


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("out", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb")]
)
def test_plain_lines_without_a_terminal(plan, monkeypatch, capsys, out, term):
    monkeypatch.setenv("TERM", term)
    other = {"pid": 7, "name": "python", "gib": 1.0}
    more = {"others": [other], "unwatched": "no answer in 10 s"}
    trial = TRIALS[0]._replace(record=but(TRIALS[0].record, **more))
    study = Study(SPACE)
    with display(plan, study, out) as watch:
        watch.line({"stage": "import"})
        watch.event(Event(0, BASELINE, None, 60.0))
        for _ in range(2):  # what is noted once is not noted again
            watch.event(Event(0, BASELINE, trial, 60.0))
        watch.event(Event(1, CONFIRMATION, None, 60.0, lost=True))
    assert out.getvalue().splitlines() == [
        "trial 0: your config (baseline; 60 s left)",
        *["  10,000 tokens/s, peak 20.0 GiB, 60 s"] * 2,
        "  trial 1: lost with its worker; it does not count",
    ]
    assert capsys.readouterr().err.splitlines() == [
        "note: on the GPU besides: python (pid 7, 1.0 GiB); figures may be low",
        "note: the GPU is not watched: no answer in 10 s: clocks, watts and other "
        "processes are unknown",
    ]


def test_plain_lines_tell_the_tokens_per_joule(plan, tmp_path):
    out = io.StringIO()
    event = Event(0, BASELINE, None, 60.0)
    (known,) = trials(("baseline", ran(GIVEN, 10_000, more={"tokens_per_joule": 20.0})))
    with display(plan, Study(SPACE), out, "tokens-per-joule") as watch:
        watch.event(event._replace(trial=known))
        watch.event(event._replace(trial=TRIALS[0]))
    assert out.getvalue().splitlines() == [
        "  10,000 tokens/s, 60 s, 20.0 tokens/J",
        "  10,000 tokens/s, peak 20.0 GiB, 60 s, does not count: watts unknown",
    ]
