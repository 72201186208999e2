"""Fixes on generated broken configs: a share of ``python -m benchmarks.fixes``."""

from functools import partial

import pytest

from benchmarks.broken_configs import broken_configs
from fp8tune.formats.edits import Edit, in_order
from fp8tune.formats.toml.document import parse
from fp8tune.lint.rewrite import apply_fixes
from tests.support.verdicts import lint, refusals

CONFIGS = list(broken_configs(150, seed=5))


LOOK = partial(lint, "x", only="kempnerforge")


def replayed(data, passes):
    """The bytes after all edits, each pass in the text of the one before."""
    for together in passes:
        changes = {
            Edit(*c[:3]) for found in together if found.fix for c in found.fix.edits
        }
        text = data.decode()
        bom = text.startswith("\ufeff")
        for change in reversed(in_order(changes)):
            text = text[: change.start + bom] + change.text + text[change.end + bom :]
        data = text.encode()
    return data


def test_the_generator_repeats_itself_and_breaks_things():
    assert list(broken_configs(150, seed=5)) == CONFIGS
    assert len({mistake for config in CONFIGS for mistake in config.mistakes}) > 15
    look = LOOK
    assert sum(bool(refusals(look(config.data))) for config in CONFIGS) > 100


@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
def test_fixes_keep_their_promises(unsafe):
    look, fixed = LOOK, 0
    for config in CONFIGS:
        made = apply_fixes(config.data, look, unsafe=unsafe)
        assert replayed(config.data, made.passes) == made.data
        parse(made.data)
        assert apply_fixes(made.data, look, unsafe=unsafe).passes == ()
        assert made.data == config.data or made.fixed
        fixed += len(made.fixed)
        if not any(found.fix.reads_on for found in made.fixed):
            assert len(refusals(made.report)) <= len(refusals(look(config.data)))
    assert fixed > 100
