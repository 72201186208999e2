"""Speeds with intervals, and verdicts that are as sure as the runs."""

import math
import random
from statistics import stdev

import pytest

from fp8tune.search.answer.decide import decide
from fp8tune.search.confirm import again
from fp8tune.search.statistics import (
    FEWEST,
    LOOKS,
    NORMAL,
    RUN_SPREAD,
    SAME,
    Speed,
    communication_error,
    in_line,
    middle_of,
    middle_speed,
    paired,
    paired_spread,
    ratio,
    settled,
    shown,
    speed,
    spread,
    steps_spread,
    student,
    verdict,
)
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial
from tests.each import each
from tests.search.tries import (
    BEST,
    BF16,
    GIVEN,
    SPACE,
    but,
    confirmed,
    history_of,
    ran,
    trials,
)


def runs(*values):
    return [Record({}, "ok", float(value)) for value in values]


@pytest.mark.parametrize(
    ("value", "half", "widened"),
    [
        (1.03, 0.02, True),  # it has just passed
        (1 / 1.03, 0.02, True),
        (1.03, 0.029, True),  # it has just not
        (1.03, 0.03, False),  # nor nearly
        (1.5, 0.02, False),  # nothing is near
    ],
)
def test_a_close_gain_is_shown_as_it_was_decided(value, half, widened):
    gain = Speed(value, value * math.exp(-half), value * math.exp(half))
    by = LOOKS if widened else 1.0
    assert shown(gain).half == pytest.approx(by * half)
    assert shown(gain).value == value


@pytest.mark.parametrize(
    ("deviation", "differ"), [(0.1, 0.1), (0.01, stdev(map(math.log, (100, 102, 90))))]
)
def test_the_middle_of_what_ran(deviation, differ):
    found = speed([*runs(100, 102, 90), Record({}, "oom")], deviation)
    half, middle = (
        math.exp(1.96 * differ / math.sqrt(3)),
        (math.sqrt(102 * 90) + 100) / 2,
    )
    assert found == pytest.approx((middle, middle / half, middle * half))
    assert speed([Record({}, "oom")]) is None
    assert speed([]) is None


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        ([100.0], 100.0),
        ([100.0, 102.0], 101.0),
        ([99.0, 100.0, 101.0], 100.0),
        # one run in seven that is lost
        ([99.0, 100.0, 101.0, 99.0, 100.0, 101.0, 10.0], 100.0),
    ],
)
def test_the_middle_of_runs(values, middle):
    assert middle_of(values) == pytest.approx(middle, rel=0.006)
    assert middle_speed(values) == pytest.approx(middle, rel=0.006)


def test_speeds_have_the_ratio_of_their_pairs():
    one, other = [507.0, 325.6], [2338.8, 1234.9]
    ratios = [b / a for a, b in zip(one, other, strict=True)]
    gain = middle_speed(other) / middle_speed(one)
    assert gain == pytest.approx(paired(ratios, 0.05).value)


@each(
    ("freedom", "value", "error"),
    [
        (2, 4.30265, 0.031),
        (3, 3.18245, 0.0074),
        (4, 2.77645, 0.0026),
        (6, 2.44691, 0.0006),
        (10, 2.22814, 0.0001),
        (30, 2.04227, 0.0001),
    ],
)
def test_students_t(freedom, value, error):
    assert student(freedom) == pytest.approx(value, rel=error)


def test_an_interval_never_goes_below_nothing():
    one, other = speed(runs(1), 5.0), speed(runs(2, 1e17), 900.0)
    assert 0 < one.low < 0.01
    assert 0 < ratio(one, other).low < ratio(one, other).high < math.inf


def test_the_spread_is_pooled_over_what_was_repeated():
    before = RUN_SPREAD * student(4) / NORMAL
    assert spread([]) == before
    assert spread([runs(100), runs(50)]) == before
    one = spread([runs(99, 101)])
    assert before < one < 0.0142
    assert spread([runs(99, 101), runs(9.9, 10.1), runs(1)] * 30) == pytest.approx(
        0.0142, rel=0.05
    )


def test_the_spread_of_pairs_counts_what_settings_share():
    """Three settings with two pairs each are worth two; one with one pair, nothing."""
    apart, usual = 0.05, RUN_SPREAD
    up = math.exp(apart)
    found = paired_spread([[1.0, up], [up, 1.0], [1.0, up], [2.0]], usual)
    squares, freedom = 3 * apart**2 / 4 * 4 / 6, 3 * 4 / 6
    own = math.sqrt(squares / freedom) * student(freedom) / NORMAL
    both = math.sqrt((squares + 4 * usual**2) / (freedom + 4)) * student(6) / NORMAL
    assert found == pytest.approx(max(own, both))
    assert paired_spread([[1.0, up], [2.0]], usual) == pytest.approx(
        math.sqrt((apart**2 / 4 + 4 * usual**2) / 5) * student(5) / NORMAL
    )


@each(
    ("chosen", "half", "said", "enough"),
    [
        (110, 0.05, "faster", True),
        (105, 0.01, "faster", True),
        (103, 0.03, "inconclusive", False),
        (102, 0.005, "faster", True),
        (102, 0.03, "inconclusive", False),
        (101, 0.015, "inconclusive", False),
        (101, 0.005, "faster", True),
        (100.5, 0.001, "same", True),
        (99.5, 0.03, "same", False),
        (99, 0.015, "inconclusive", True),
        (98, 0.03, "inconclusive", True),
        (95, 0.01, "slower", True),
        (90, 0.05, "slower", True),
    ],
)
def test_verdicts_and_when_more_runs_would_tell_nothing(chosen, half, said, enough):
    """Of what is slower it need not be known whether it is as fast."""
    gain = chosen / 100
    speed = Speed(gain, gain * (1 - half), gain * (1 + half))
    assert (verdict(speed, SAME), settled(speed, SAME)) == (said, enough)


def test_a_ratio_is_less_sure_than_its_parts():
    found = ratio(Speed(110, 109, 111), Speed(100, 99, 101))
    assert found.value == pytest.approx(1.1)
    assert found.half == pytest.approx(math.hypot(1 / 110, 1 / 100), rel=1e-3)


@pytest.mark.parametrize(("gain", "most"), [(0.0, 0.03), (0.02, 1.0)])
def test_faster_is_seldom_said_of_the_same(gain, most):
    """Six runs each, which differ by 0.5 % as usual."""
    draw = random.Random(1)
    said = 0
    for _ in range(400):
        ratios = [
            draw.gauss(100 * (1 + gain), 0.5) / draw.gauss(100, 0.5) for _ in range(6)
        ]
        found = paired(ratios, paired_spread([ratios]))
        said += verdict(found, SAME) == "faster"
    assert (0.9 if gain else 0) <= said / 400 <= most


@pytest.mark.parametrize("deviation", [0.005, 0.02, 0.3])
@pytest.mark.parametrize("count", [2, 4])
def test_an_interval_holds_what_it_says_however_runs_differ(deviation, count):
    """Also where they differ more than is usual: a shared node, a CPU."""
    draw, held = random.Random(count), 0
    for _ in range(500):
        base, *others = (
            [math.exp(draw.gauss(9, deviation)) for _ in range(count)] for _ in range(3)
        )
        pairs = [[a / b for a, b in zip(own, base, strict=True)] for own in others]
        found = paired(pairs[0], paired_spread(pairs))
        held += found.low <= 1 <= found.high
    assert held / 500 >= 0.93


@pytest.mark.parametrize(
    ("values", "deviation", "counted"),
    [
        ([0.0, 0.01, -0.1, 0.01, 0.0], 0.01, "+++++"),  # too few to tell which are odd
        ([0.0, 0.01, -0.1, 0.01, 0.0, 0.02], 0.01, "++-+++"),
        ([0.0, 0.01, -0.1, 0.01, 0.0, 0.02], 0.04, "++++++"),
        ([0.0, 0.1, 0.0, 0.1, 0.0, 0.1], 0.001, "++++++"),  # half of them each
        ([0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1], 0.001, "++++---"),
        ([0.0, 0.03, -0.03, 0.02, -0.02, 0.05], 0.001, "++++++"),  # as they differ
    ],
)
def test_what_lies_far_off_does_not_count(values, deviation, counted):
    assert in_line(values, deviation) == [mark == "+" for mark in counted]


@pytest.mark.parametrize("far", [3.0, math.inf])
def test_one_bad_run_says_little_of_how_all_others_differ(far):
    calm = [runs(99.8, 100, 100.2), runs(80, 80.1, 80.2, 79.9), runs(49.9, 50)]
    before = spread(calm, far=far)
    after = spread([*calm, runs(120, 120.1, 108, 119.9, 120.2)], far=far)
    assert (after < 1.5 * before) == (far < math.inf)


@pytest.mark.parametrize("count", [FEWEST, 8, 14])
@pytest.mark.parametrize("deviation", [0.003, 0.01])
def test_a_bad_run_leaves_an_interval_as_true_and_as_narrow(deviation, count):
    """One run in twenty loses 10 %, in pairs of which those far off do not count."""
    draw, held, halves = random.Random(count), 0, {0.0: 0.0, 0.05: 0.0}
    for bad in halves:
        for _ in range(600):
            logs = [
                sum(
                    sign * (draw.gauss(0, deviation) - 0.1 * (draw.random() < bad))
                    for sign in (1, -1)
                )
                for _ in range(count)
            ]
            kept = zip(logs, in_line(logs, math.sqrt(2) * deviation), strict=True)
            found = paired([math.exp(log) for log, counts in kept if counts], deviation)
            held += (found.low <= 1 <= found.high) * (bad > 0)
            halves[bad] += found.half
    assert held / 600 >= 0.93
    assert halves[0.05] < 1.5 * halves[0.0]


@pytest.mark.parametrize(
    ("told", "deviation"),
    [
        ([100.0, 100.0 * math.exp(0.196)], 0.05),
        ([100.0, 100.0], 0.0),
        ([100, 90], 0.0),
        ([0, 90], 0.0),
        ([1.0, math.inf], 0.0),
        (["1", "2"], 0.0),
        ([1], 0.0),
        (None, 0.0),
    ],
)
def test_steps_that_differ_more_than_runs_do_widen_an_interval(told, deviation):
    run = ran(GIVEN, median_step_ms_95=told)
    assert steps_spread([run]) == pytest.approx(deviation)
    assert speed([run]).half == pytest.approx(NORMAL * max(RUN_SPREAD, deviation))


STEP_MS = 1000.0


def many(point, share, speed=10_000.0, error=1.0):
    """A rank of that speed, with collectives that take a share of a step."""
    added = STEP_MS * share / (1 - share)
    ends = [(1 + error) * added, (1 - error) * added]
    more = {"communication_ms": added, "communication_ends_ms": ends}
    return ran(point, speed * (1 - share), step_ms=(STEP_MS,), more=more)


def found(given, best):
    return decide(history_of(tried(given, best)), 99.0)


def tried(given, best):
    shares = {GIVEN: given, BEST: best}
    order = (BEST, GIVEN, GIVEN, BEST) * 2
    ends = confirmed(*(many(point, *shares[point]) for point in order))
    begin = [("baseline", many(GIVEN, *given)), ("search", many(BEST, *best))]
    return trials(*begin, *ends)


@pytest.mark.parametrize(
    ("given", "best", "verdict"),
    [
        ((0.0,), (0.0, 11_000), "faster"),
        ((0.3,), (0.3, 11_000), "faster"),  # the same for both
        ((0.3,), (0.03,), "inconclusive"),  # by prediction alone
        ((0.3, 10_000, 0.05), (0.03, 10_000, 0.05), "faster"),  # which is good
        ((0.1,), (0.03, 12_000), "faster"),  # and without it
        ((0.1, 12_000), (0.03,), "same"),
        ((0.03,), (0.3,), "inconclusive"),
    ],
)
def test_a_verdict_is_sure_if_no_prediction_turns_it(given, best, verdict):
    said = found(given, best)
    assert said.verdict == verdict
    decides = said.find("communication-decides")
    assert bool(decides) == (verdict == "inconclusive")
    assert decides is None or decides.facts["within"] > 0.2


def network(added, *ends):
    """What a record tells of its collectives."""
    return {"communication_ms": added, "communication_ends_ms": list(ends)}


def runs_to_the_end(more):
    """How often settings are measured again; the baseline communicates a lot."""
    speeds = {GIVEN: (0.3,), BEST: (0.03, 8_000), BF16: (0.3, 9_000)}
    known: list[Trial] = []
    points = [*speeds]
    while points and len(known) < 60:
        record = many(points[0], *speeds.get(points[0], (0.03, 7_000)))
        stage = "search" if len(known) < len(speeds) else "confirm"
        place = len(known)
        known.append(Trial(place, stage, but(record, **more), position=place))
        points = points[1:] or list(filter(None, [again(history_of(known))]))
    return len(known)


def test_no_more_runs_are_made_for_what_is_predicted():
    assert runs_to_the_end({}) == runs_to_the_end({"communication_ms": None}) < 60


@pytest.mark.parametrize(
    ("mine", "theirs", "left"),
    [
        ({}, {}, 0.0),
        (network(500.0, 900.0, 300.0), network(500.0, 900.0, 300.0), 0.0),
        (network(500.0), network(500.0), math.log(2)),  # each by itself
        (network(500.0), network(500.0, 900.0), math.log(2)),
        (network(500.0, "x"), network(500.0, 500.0), math.log(2)),
        (network(500.0, math.nan), network(500.0, 500.0), math.log(2)),
        (network(1000.0), {}, math.log(2)),
        (network(1000.0), network(None), math.log(2)),
        (network("x"), network(-1), 0.0),
        (
            network(1000.0, 3000.0, 500.0),
            network(250.0, 500.0, 200.0),
            math.log(4000 / 1500) - math.log(2000 / 1250),
        ),
    ],
)
def test_what_another_network_leaves_open(mine, theirs, left):
    one, other = (ran(GIVEN, step_ms=[STEP_MS], **more) for more in (mine, theirs))
    assert communication_error(one, other) == pytest.approx(left)
    assert communication_error(other, one) == pytest.approx(left)


@pytest.mark.parametrize(
    ("rehearsal", "gain", "verdict", "within"),
    [
        (True, 1.03, "same", 0.05),
        (True, 1.06, "faster", None),
        (False, 1.03, "faster", None),
        (False, 1.005, "same", None),
    ],
)
def test_a_gain_on_a_cpu_must_be_larger(rehearsal, gain, verdict, within):
    more = {"rehearsal": rehearsal}
    pair = [ran(BEST, 100 * gain, more=more), ran(GIVEN, 100, more=more)]
    runs = trials(("baseline", pair[1]), *confirmed(*pair * 6))
    found = decide(history_of(runs), 99.0)
    assert found.verdict == verdict
    coarse = found.find("coarse-on-cpu")
    assert (coarse and coarse.facts["within"]) == within


EVEN = {GIVEN: 100.0, BEST: 100.3, SPACE.in_bf16(BEST): 80.0, BF16: 70.0}


@pytest.mark.parametrize("begins", range(12))
@pytest.mark.parametrize("lasts", [2, 3, 4, 6])
def test_a_gpu_that_is_slow_for_a_few_trials_makes_nothing_faster(begins, lasts):
    """Wherever they lie: as many trials of settings that are alike lose 6 %."""

    def now(point):
        number = len(tried)
        lost = 0.94 if begins <= number < begins + lasts else 1.0
        return ran(point, EVEN[point] * lost * (1 + (number % 3 - 1) / 1000))

    tried = []
    stages = [("baseline", GIVEN), ("bf16-baseline", BF16), ("search", BEST)]
    while stages or (point := again(history_of(tried))) is not None:
        stage, point = stages.pop(0) if stages else ("confirm", point)
        more = {"searched_all": True} if stage == "confirm" else {}
        record = but(now(point), **more)
        tried += [t._replace(position=len(tried)) for t in trials((stage, record))]
        assert len(tried) < 60
    assert decide(history_of(tried), 1.0).verdict == "same"
