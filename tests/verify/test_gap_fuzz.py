"""Any curves can be compared: nothing raises, and all JSON is finite."""

import json
import math

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fp8tune.report.curves_plot import runs_plot
from fp8tune.report.plots import PLACEHOLDERS
from fp8tune.verify.evidence import Curve
from fp8tune.verify.gap import compare
from fp8tune.verify.gap_output import as_json, text
from fp8tune.verify.runs import Run, _joined

number = st.floats(-1e3, 1e3) | st.floats(width=32) | st.just(2.0)
size = st.none() | st.floats(1e-3, 1e12)


@st.composite
def runs(draw):
    """A run of any losses, constant or not, with any restarts."""
    starts = []
    for _ in range(draw(st.integers(1, 3))):
        curve = Curve()
        step = draw(st.integers(0, 20))
        constant = draw(st.none() | number)
        for _ in range(draw(st.integers(1, 30))):
            step += draw(st.integers(1, 2))
            values = {name: draw(number) for name in ("grad_norm", "step_s")}
            loss = draw(number) if constant is None else constant
            curve.add(step=step, loss=loss, **values)
        starts.append(curve)
    run: Run = _joined("a", "log", ["a"], starts)
    run.tokens_per_step = draw(size)
    return run


@settings(max_examples=100)
@given(st.lists(runs(), min_size=2, max_size=4))
def test_any_curves_can_be_compared(every):
    result = compare(every[:1], every[1:])
    json.dumps(as_json(result), allow_nan=False)
    assert all(line.isprintable() for line in text(result))


@settings(max_examples=15, phases=[Phase.explicit, Phase.generate])
@given(st.lists(runs(), min_size=2, max_size=3))
def test_any_curves_can_be_drawn(every):
    plot = runs_plot(compare(every[:1], every[1:]))
    if plot:
        plot.draw(PLACEHOLDERS).draw_without_rendering()


def test_a_loss_that_is_no_cross_entropy_is_not_judged():
    zero = Curve()
    for step in range(200):
        zero.add(step=step, loss=0.01 * math.sin(step))
    run = Run("a", "", [], zero)
    result = compare([run], [run])
    assert (result.verdict, result.reason) == ("inconclusive", "no-cross-entropy")
