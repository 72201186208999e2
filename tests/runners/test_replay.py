"""Replay: records in turn, simulated time, deadlines."""

import pytest

from fp8tune.runners.replay import Replay
from fp8tune.trials.runner import TrialLimits
from tests.search.tries import BEST, GIVEN, SPACE, ran

RECORDS = [ran(GIVEN, 1), ran(BEST, 9), ran(GIVEN, 2, cost_s=100.0)]


def test_the_records_of_a_setting_come_in_turn_and_over_again():
    runner = Replay(RECORDS, SPACE)
    found = [runner.run(SPACE.values(GIVEN), TrialLimits(1e9)) for _ in range(3)]
    assert found == [RECORDS[0], RECORDS[2], RECORDS[0]]
    assert runner.now() == 60 + 100 + 60


def test_what_takes_too_long_is_cut_off_at_the_deadline():
    runner = Replay([ran(GIVEN, cost_s=1e9)], SPACE)
    found = runner.run(SPACE.values(GIVEN), TrialLimits(77.0))
    assert found == ran(GIVEN, outcome="hang", cost_s=77.0)
    assert runner.now() == 77


def test_what_makes_steps_may_go_on():
    slow = ran(GIVEN, cost_s=1000.0, step_ms=(90.0,))
    whole, late = (
        Replay([slow], SPACE).run(SPACE.values(GIVEN), TrialLimits(900, stepping_s))
        for stepping_s in (2000, 950)
    )
    assert whole == slow
    assert (late.outcome, late.cost_s) == ("hang", 950)


@pytest.mark.parametrize("skipped", range(4))
def test_a_study_that_resumes_gets_the_records_that_it_has_not_had(skipped):
    runner = Replay(RECORDS, SPACE)
    for _ in range(skipped):
        runner.skip(GIVEN)
    record = runner.run(SPACE.values(GIVEN), TrialLimits(1e9))
    assert record.tokens_per_second == (1, 2)[skipped % 2]
    assert runner.now() == record.cost_s
    runner.close()
