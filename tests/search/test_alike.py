"""What a rehearsal calls the same: a CPU's runs differ more than a GPU's."""

import pytest

from fp8tune.search.answer import answer
from fp8tune.search.caveats import caveats
from tests.report.studies import plan
from tests.search.tries import BEST, GIVEN, SPACE, confirmed, ran, trials

SAID = "up to 5 % is the same: a CPU tells no more"


@pytest.mark.parametrize(
    ("rehearsal", "gain", "verdict", "said"),
    [
        (True, 1.03, "same", [SAID]),
        (True, 1.06, "faster", []),
        (False, 1.03, "faster", []),
        (False, 1.005, "same", []),
    ],
)
def test_a_gain_on_a_cpu_must_be_larger(rehearsal, gain, verdict, said):
    more = {"rehearsal": rehearsal}
    pair = [ran(BEST, 100 * gain, more=more), ran(GIVEN, 100, more=more)]
    runs = trials(("baseline", pair[1]), *confirmed(*pair * 6))
    found = answer(SPACE, GIVEN, runs, 99.0)
    assert found.verdict == verdict
    assert list(caveats(found, plan())) == said
