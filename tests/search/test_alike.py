"""What a rehearsal calls the same: a CPU's runs differ more than a GPU's."""

import pytest

from fp8tune.search.answer.decide import decide
from tests.search.tries import BEST, GIVEN, confirmed, history_of, ran, trials


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
