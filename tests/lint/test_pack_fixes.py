"""Fixes in rules of users: what is wrong is said with its place."""

from fp8tune.lint.packs import read_pack
from tests.each import each
from tests.lint.pack import GOOD, reason

FIXABLE = GOOD + '[[fix]]\nsafety = "safe"\ntitle = "repair"\nset = { tp = "1" }\n'
"""The fix begins on line 13."""


@each(
    "text",
    [
        FIXABLE,
        FIXABLE
        + '[[fix]]\nsafety = "unsafe"\ntitle = "x"\nchanges = "y"\nremove = ["tp"]',
        FIXABLE.replace('"1"', "\"fp8.kv_size if defined(world_size) else 'x'\""),
        FIXABLE.replace("[[at]]", 'trainer = "kempnerforge"\n[[at]]').replace(
            "{ tp", '{ "train.seq_len"'
        ),
        FIXABLE.replace("when = 'tp > 1'", 'fault = "unknown-key"').replace(
            "{ tp", "{ fault"
        ),
        FIXABLE.replace("when = 'tp > 1'", 'fault = "unused-ignore"').replace(
            'set = { tp = "1" }\n', ""
        ),
    ],
)
def test_good_fixes(tmp_path, text):
    (tmp_path / "silent").mkdir(exist_ok=True)
    (tmp_path / "silent" / "my-rule.toml").write_text(text)
    (rule,) = read_pack(str(tmp_path))
    assert len(rule.fixes) == text.count("[[fix]]")


SHAPES = "write [[fix]]"
NOTHING = "a fix has `set`, `rename`, `move`, `header` or `remove`"
TABLE = "is a table of names and expressions; write dotted names in quotes"
CHANGES = "an unsafe fix says in `changes` what becomes of the run"


@each(
    ("old", "new", "said"),
    [
        ("[[fix]]", "[fix]", f":13:2: {SHAPES}"),
        ('safety = "safe"\n', "", ":13:3: [[fix]] has no `safety`"),
        ('"safe"', '"saef"', ":14:1: safety is safe or unsafe; did you mean `safe`?"),
        ('"safe"', '"unsafe"', f":13:3: {CHANGES}"),
        ('"repair"', '" "', ":15:1: title is empty"),
        ("title = ", "titel = ", ":15:1: unknown key `titel`; did you mean `title`?"),
        ('set = { tp = "1" }\n', "", f":13:3: {NOTHING}"),
        ('{ tp = "1" }', '"tp"', f":16:1: set {TABLE}"),
        ("{ tp = ", "{ train.tp = ", f":16:1: set {TABLE}"),
        ('set = { tp = "1" }', 'remove = "tp"', ":16:1: remove is an array of names"),
        ("{ tp = ", "{ tpp = ", ":16:9: unknown name `tpp`; did you mean `tp`?"),
        (
            "{ tp = ",
            '{ "fp8.kv_size" = ',
            ":16:9: no key says `fp8.kv_size`; name the keys that it follows from",
        ),
        ("{ tp = ", "{ fault = ", ":16:9: only a rule with `fault` speaks of one"),
        (
            'set = { tp = "1" }',
            'remove = ["tp", "tpp"]',
            ":16:17: unknown name `tpp`; did you mean `tp`?",
        ),
        ('"1"', '"tpp"', ":16:15: unknown name `tpp`; did you mean `tp`?"),
        ('"1"', '"1 +"', ":16:18: invalid syntax"),
        (
            'set = { tp = "1" }',
            '[fix.set]\ntp = "tpp"',
            ":17:7: unknown name `tpp`; did you mean `tp`?",
        ),
        ('"repair"', '"set {tp"', ":15:14: a lone brace; write {{ or }}"),
        (
            "set = {",
            'when = "tpp > 1"\nset = {',
            ":16:9: unknown name `tpp`; did you mean `tp`?",
        ),
        (
            "set = {",
            'changes = "{tpp} x more"\nset = {',
            ":16:13: unknown name `tpp`; did you mean `tp`?",
        ),
        ("set = {", 'move = { pp = "tpp" }\nset = {', ":16:16: unknown name `tpp`"),
    ],
)
def test_fixes(tmp_path, old, new, said):
    assert FIXABLE.count(old) == 1
    assert reason(tmp_path, FIXABLE.replace(old, new)).startswith(said)


def test_the_wrong_one_of_several_fixes_is_pointed_at(tmp_path):
    more = '[[fix]]\nsafety = "safe"\ntitle = "x"\nset = { tp = "tpp" }\n'
    assert reason(tmp_path, FIXABLE + more).startswith(":20:15: unknown name `tpp`")
