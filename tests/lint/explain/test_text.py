"""Pages as people read them."""

from fp8tune.lint.explain import explain
from fp8tune.lint.explain.text import text


def test_a_config_cannot_act_on_the_terminal(config):
    read = config(
        '[model]\nmodel_type = "\\u001b[31mx\\u009b"\n[train]\nseq_len = 16\n'
    )
    shown = text(explain("model.model_type", read))
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert r"\u001b[31mx\u009b" in shown
