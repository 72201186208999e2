"""Fixes put into a file: together, and in circles."""

import pytest

from fp8tune.formats.document import MAX_BYTES
from fp8tune.lint.rewrite import apply_fixes, explained
from tests.each import each
from tests.lint.conftest import fix

PP = b"[distributed]\npp = 2\n"


def names(found):
    return [diagnostic.rule for diagnostic in found]


def fixed(data, look, *, unsafe=False):
    """The bytes after all fixes and the rules that fixed; twice changes nothing."""
    once = apply_fixes(data, look, unsafe=unsafe)
    again = apply_fixes(once.data, look, unsafe=unsafe)
    assert (again.data, again.fixed) == (once.data, ())
    assert once.report == look(once.data)
    return once.data, names(once.fixed)


def reasons(data, look):
    """Why each fix that is left after ``--unsafe-fixes`` was not applied, by rule."""
    left = explained(apply_fixes(data, look, unsafe=True), look, unsafe=True)
    return {f.rule: f.fix.not_applied for f in left if f.fix}


def test_only_safe_ones_unless_asked(a_rule, looks):
    look = looks(a_rule(fix('set = { pp = "1" }', "unsafe")))
    assert fixed(PP, look) == (PP, [])
    left = explained(apply_fixes(PP, look, unsafe=False), look, unsafe=False)
    assert left == look(PP).diagnostics  # it was not tried, so it is still offered
    assert fixed(PP, look, unsafe=True) == (b"[distributed]\npp = 1\n", ["a-rule"])


def test_safe_ones_come_first(a_rule, looks):
    look = looks(
        a_rule(fix('set = { pp = "1" }', "unsafe"), name="a-unsafe"),
        a_rule(fix('set = { pp = "0" }'), name="z-safe"),
    )
    after = (b"[distributed]\npp = 0\n", ["z-safe"])
    assert fixed(PP, look, unsafe=True) == after


def test_what_the_trainer_refuses_to_read_comes_before_other_unsafe_ones(
    looks, builtin
):
    """Else the default warmup is fixed, and the written one can no longer be."""
    data = b"[train]\nmax_steps = 1000\nwarmup_steps = 9\n"
    assert fixed(data, looks(*builtin), unsafe=True) == (
        b"[train]\nmax_steps = 1000\n\n[scheduler]\nwarmup_steps = 9\n",
        ["unknown-key"],
    )


def test_edits_that_overlap_are_not_applied_together(a_rule, looks):
    look = looks(
        a_rule(fix('set = { pp = "3" }'), name="a-rule", when="pp == 2"),
        a_rule(fix('set = { pp = "1" }'), name="b-rule", when="pp > 1"),
    )
    assert fixed(PP, look) == (b"[distributed]\npp = 1\n", ["a-rule", "b-rule"])


@pytest.mark.parametrize("others", [0, 1, 7])
def test_one_fix_that_does_not_hold_keeps_back_no_other(a_rule, looks, others):
    """The bad one does not silence its rule."""
    bad = a_rule(fix('set = { "data.num_workers" = "1" }'), name="bad", when="pp > 1")
    keys = ["tp", "cp", "ep", "dp_replicate", "grad_accum", "max_steps", "layers"]
    good = [
        a_rule(fix(f'set = {{ {key} = "1" }}'), name=f"good-{key}", when=f"{key} > 1")
        for key in keys[:others]
    ]
    text = (
        "data.datasets.x = 1\n[distributed]\npp = 2\ntp = 2\ncp = 2\nep = 2\n"
        "dp_replicate = 2\n[train]\ngrad_accum_steps = 2\nmax_steps = 2\n"
    )
    data, by = fixed(text.encode(), looks(*good[:3], bad, *good[3:]))
    assert sorted(by) == sorted(rule.name for rule in good)
    assert b"pp = 2" in data


def test_a_fix_that_does_not_silence_its_rule_is_not_applied(a_rule, looks):
    look = looks(a_rule(fix('set = { tp = "1" }')))
    assert fixed(PP, look) == (PP, [])
    assert reasons(PP, look) == {"a-rule": "it does not remove the finding"}


def test_circles_leave_the_file_as_it_was(a_rule, looks):
    look = looks(
        a_rule(fix('set = { pp = "3" }'), name="a-rule", when="pp == 2"),
        a_rule(fix('set = { pp = "2" }'), name="b-rule", when="pp == 3"),
    )
    for data in (PP, PP.replace(b"2", b"3")):
        assert fixed(data, look) == (data, [])
        assert set(reasons(data, look).values()) == {
            "the fixes of this file undo each other"
        }


def test_what_finds_no_end_leaves_the_file_as_it_was(a_rule, looks):
    rules = [
        a_rule(fix('set = { pp = "pp + 1" }'), name=f"r-{r}", when=f"pp % 2 == {r}")
        for r in (0, 1)
    ]
    assert fixed(PP, looks(*rules)) == (PP, [])


ERRORS = {"severity": "error"}


def test_errors_may_not_grow(a_rule, looks):
    look = looks(
        a_rule(fix('set = { pp = "1" }', "unsafe"), **ERRORS),
        a_rule(name="b-rule", when="pp == 1", **ERRORS),
        a_rule(name="c-rule", when="pp < 2", **ERRORS),
    )
    assert fixed(PP, look, unsafe=True) == (PP, [])
    assert reasons(PP, look) == {
        "a-rule": "lint would then report: error[b-rule] pp is 1"
    }


def test_a_fix_that_another_one_spares_is_not_made(a_rule, looks):
    look = looks(
        a_rule(fix('set = { pp = "1" }', "unsafe"), name="a", when="pp > 1"),
        a_rule(fix('set = { tp = "4" }', "unsafe"), name="b", when="pp > 1 and tp < 4"),
    )
    assert fixed(PP, look, unsafe=True) == (PP.replace(b"2", b"1"), ["a"])


@each(
    "line",
    [
        "[train]\nfp8 = true\n",
        "[train]\ngrad_clip = false\n",
        '[train]\nmicro_batch_size = "auto"\n',
        '[model]\nbatch_size = "many"\n',
    ],
)
def test_no_key_gets_a_value_of_another_type(looks, builtin, line):
    assert fixed(line.encode(), looks(*builtin), unsafe=True) == (line.encode(), [])


def test_behind_what_the_trainer_refuses_errors_may_show(looks, builtin):
    data = b"dim = 1000\nn_heads = 64\nn_kv_heads = 7\n"
    assert fixed(data, looks(*builtin)) == (b"[model]\n" + data, ["missing-header"])
    named = b"[modl]\n" + data
    assert fixed(named, looks(*builtin), unsafe=True) == (
        b"[model]\n" + data,
        ["unknown-key"],
    )


def test_behind_what_the_trainer_lets_pass_they_may_not(looks, builtin):
    data = b'[eval]\nenabled = "on"\n'
    assert fixed(data, looks(*builtin), unsafe=True) == (data, [])


def test_behind_a_mistyped_value_one_error_may_show(looks, builtin):
    """A mistyped optimizer fails; so does the one that was meant, under a warmup."""
    data = b'[train]\ncompile_model = true\n[optimizer]\nname = "schedulefree_adamw"\n'
    meant = data.replace(b"schedulefree", b"schedule_free")
    assert fixed(data, looks(*builtin)) == (meant, ["unknown-optimizer"])
    both = apply_fixes(data, looks(*builtin), unsafe=True)
    assert not [f for f in both.report.diagnostics if f.severity == "error"]


def test_a_file_may_not_become_too_large(a_rule, looks):
    look = looks(a_rule(fix('set = { pp = "1", tp = "2" }')))
    data = PP + b"#" * (MAX_BYTES - len(PP))
    assert fixed(data, look) == (data, [])


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf[distributed]\r\npp = 2 # why\r\n",
        b"\xef\xbb\xbf[distributed]\r\npp = 2",
        b"# \xe6\xbc\xa2 \xf0\x9f\x98\x80\n[distributed]\npp = 2  # \xc3\xa9\n",
    ],
)
def test_only_edited_bytes_change(a_rule, looks, data):
    look = looks(a_rule(fix('set = { pp = "1" }')))
    assert fixed(data, look) == (data.replace(b"= 2", b"= 1"), ["a-rule"])


def test_a_byte_order_mark_goes_with_other_edits(looks, builtin):
    data = b"\xef\xbb\xbf[model]\r\nnum_experts = -1 # none\r\n"
    assert fixed(data, looks(*builtin))[0] == (b"[model]\r\nnum_experts = 0 # none\r\n")
