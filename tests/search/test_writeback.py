"""The tuned config: values and reasons in, every other byte as it was."""

import re
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fp8tune.formats.edits import CannotEdit
from fp8tune.formats.toml.document import parse
from fp8tune.search.write.toml_check import check_others
from fp8tune.search.write.writeback import (
    BLOCK,
    MARK,
    MEASURED,
    WIDTH,
    CannotWrite,
    Choice,
    write_back,
)
from tests.formats.toml.values import canonical, walk
from tests.formats.toml.writer import documents

SUMMARY = ("faster: +7.4 % tokens/s", "peak memory 71.0 of 79.1 GiB")
BATCH = Choice("train.batch_size", 4, "8 -> 4: why")
PRECISION = Choice("train.mixed_precision", "bf16", "fp8 -> bf16: why")
CONFIG = """\
# my model
[train]
batch_size = 8  # per GPU
  mixed_precision = 'fp8'

# all of them
[distributed]
tp = 1
"""
TUNED = f"""\
# my model
[train]
{MARK}faster: +7.4 % tokens/s
{MARK}peak memory 71.0 of 79.1 GiB
{MARK}8 -> 4: why
batch_size = 4  # per GPU
  {MARK}fp8 -> bf16: why
  mixed_precision = 'bf16'

# all of them
[distributed]
tp = 1
"""


def written(text, *choices, summary=SUMMARY):
    return write_back(text.encode(), choices, summary).decode()


def test_one_block_above_the_first_key_and_one_line_above_each():
    assert written(CONFIG, PRECISION, BATCH) == TUNED


def test_bom_and_line_endings_stay():
    crlf = "\ufeff" + CONFIG.replace("\n", "\r\n")
    after = "\ufeff" + TUNED.replace("\n", "\r\n")
    assert written(crlf, BATCH, PRECISION) == after
    assert written("\ufeff", BATCH, summary=()).startswith("\ufeff[train]\n")


LAYOUTS = {
    "dotted keys": ("train.batch_size = 8", "train.batch_size = 4"),
    "spaces around dots": (" train . 'batch_size' =8", " train . 'batch_size' =4"),
    "an inline table": (
        "train = { batch_size = 8, x = 1 } # mine\n",
        "train = { batch_size = 4, x = 1 } # mine\n",
    ),
    "an inline table without the key": (
        "train = { x.y = 1 }\n",
        "train = { x.y = 1, batch_size = 4 }\n",
    ),
    "an empty inline table": ("train = { }\n", "train = { batch_size = 4 }\n"),
    "tabs and no final newline": (
        "[ train ]\t# x\n\tbatch_size\t=\t8",
        "[ train ]\t# x\n\tbatch_size\t=\t4",
    ),
    "an odd spelling of a number": (
        "[train]\nbatch_size = 0x0_8\nb = 1_0.5e1\n",
        "[train]\nbatch_size = 4\nb = 1_0.5e1\n",
    ),
    "the value is there": ("[train]\nbatch_size = 0x4", "[train]\nbatch_size = 0x4"),
    "a quoted header": ("['train']\nbatch_size = 8\n", "['train']\nbatch_size = 4\n"),
    "a key that is not there": (
        "[train]\n  a = 1 # a\n# b\n\n[b]\n",
        "[train]\n  a = 1 # a\n  batch_size = 4\n# b\n\n[b]\n",
    ),
    "an empty table": ("[a]\n[train]", "[a]\n[train]\nbatch_size = 4"),
    "an empty file": ("", "[train]\nbatch_size = 4\n"),
    "no such table": ("[a]\nb = 1", "[a]\nb = 1\n\n[train]\nbatch_size = 4\n"),
    "only dotted tables": (
        "train.x.y = 1\n",
        "train.x.y = 1\ntrain.batch_size = 4\n",
    ),
    "only a table below": (
        "[train.x]\ny = 1\n",
        "[train.x]\ny = 1\n\n[train]\nbatch_size = 4\n",
    ),
    "a table below it": (
        "[train]\n[train.x]\ny = 1\n",
        "[train]\nbatch_size = 4\n[train.x]\ny = 1\n",
    ),
    "tables out of order": (
        "[train.x]\ny=1\n[b]\n[train]\nbatch_size=8\n[b.c]\n[train.z]\n",
        "[train.x]\ny=1\n[b]\n[train]\nbatch_size=4\n[b.c]\n[train.z]\n",
    ),
    "arrays of tables": (
        "[[a]]\nx=1\n[[a.b]]\n[a.c]\n[[a]]\n[train]\nbatch_size=8\n[[train.x]]\n",
        "[[a]]\nx=1\n[[a.b]]\n[a.c]\n[[a]]\n[train]\nbatch_size=4\n[[train.x]]\n",
    ),
    "an array of tables below it": (
        "[train]\na = 1\n[[train.x]]\ny = 1\n",
        "[train]\na = 1\nbatch_size = 4\n[[train.x]]\ny = 1\n",
    ),
    "arrays of tables out of order": (
        "[[a]]\n[b]\n[[a]]\n",
        "[[a]]\n[b]\n[[a]]\n\n[train]\nbatch_size = 4\n",
    ),
    "strings of many lines": (
        f"[train]\nnote = \"\"\"\n{MARK}x\n\"\"\"\nbatch_size = '''\n8'''  # x\n",
        f'[train]\nnote = """\n{MARK}x\n"""\nbatch_size = 4  # x\n',
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    """A second search replaces what the first has written, to the byte."""
    before, after = LAYOUTS[layout]
    first = written(before, BATCH)
    own = rf"(?m)^[ \t]*{MARK}(?:faster|peak|8 -> 4).*\n"
    assert (re.sub(own, "", first), len(re.findall(own, first))) == (after, 3)
    other = Choice(BATCH.key, 16, "again")
    if layout != "the value is there":
        again = written(first, other, summary=("slower",))
        assert again == written(before, other, summary=("slower",))


REFUSED = {
    "[[train]]\n": "train.batch_size: there is no table for `batch_size`",
    "train = 1\n": "train.batch_size: there is no table for `batch_size`",
    "[train.batch_size]\n": "train.batch_size: `batch_size` is a table",
    "[train]\nbatch_size = [  # mine\n]\n": "train.batch_size: a comment would be",
    f"x = {'[' * 300}{']' * 300}\n": "tomlkit cannot read this file: ",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_kept_is_refused(text):
    with pytest.raises(CannotWrite, match=f"^{re.escape(REFUSED[text])}") as error:
        written(text, BATCH)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "after",
    [
        CONFIG.replace("tp = 1", "tp = 2"),
        CONFIG.replace("tp = 1\n", ""),
        CONFIG.replace("'fp8'", '"fp8"'),
        CONFIG.replace("# per GPU", ""),
    ],
)
def test_a_change_of_other_parts_is_refused(after):
    before, batch = parse(CONFIG.encode()), ("train", "batch_size")
    check_others(before, parse(CONFIG.replace("8", "16", 1).encode()), [batch])
    with pytest.raises(CannotEdit, match=r"^train\.batch_size: .* other parts"):
        check_others(before, parse(after.encode()), [batch])


def test_a_value_that_toml_cannot_hold_is_refused():
    with pytest.raises(CannotWrite, match=r"^train\.x: "):
        written("[train]\n", Choice("train.x", object()))


@st.composite
def requests(draw):
    """A config in any layout, and new values for some of its keys and new ones."""
    text, values = draw(documents())
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    known = [
        path
        for path, value in walk(values)
        if not isinstance(value, (dict, list)) and _is_plain(path)
    ]
    tables = [(), *(p for p, value in walk(values) if isinstance(value, dict))]
    new = [(*path, f"new{i}") for i, path in enumerate(tables) if _is_plain(path)]
    paths = draw(
        st.lists(
            st.sampled_from([*known, *new, ("a", "b", "new")]), max_size=3, unique=True
        )
    )
    return text, values, paths


def _is_plain(path):
    return all(isinstance(name, str) and name and "." not in name for name in path)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(requests(), st.data())
def test_any_layout_is_kept_or_refused(request, data):
    text, _, paths = request
    fresh = st.sampled_from([12345, 2.5, "some text"])
    choices = [
        Choice(".".join(path), data.draw(fresh), f"reason {number}")
        for number, path in enumerate(paths)
    ]
    raw = text.encode()
    try:
        after = write_back(raw, choices, SUMMARY)
    except CannotWrite as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    expected = tomllib.loads(text)
    for path, choice in zip(paths, choices, strict=True):
        table = expected
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = choice.value
    assert canonical(tomllib.loads(after.decode())) == canonical(expected)
    assert _has_lines(after.decode(), _untouched(text, paths))
    others = [choice._replace(value=2 * choice.value, reason="b") for choice in choices]
    again = write_back(after, others, ("other",))
    assert again == write_back(raw, others, ("other",))


def _untouched(text, paths):
    """The lines of a config on which none of these keys stands."""
    document = parse(text.encode())
    touched = set()
    every = {*paths, *(path[:-1] for path in paths)}  # also the inline tables
    keys, values = document.spans.keys, document.spans.values
    for path in every & values.keys():
        start, end = keys[path][0], values[path][1]
        first, last = (document.lines.position(at).line for at in (start, end))
        touched |= set(range(first, last + 1))
    return [
        line.rstrip("\r")
        for number, line in enumerate(document.text.split("\n"), 1)
        if number not in touched
    ]


def _has_lines(text, lines):
    """Whether a text has these lines in their order, and maybe others."""
    rest = iter([line.rstrip("\r") for line in text.split("\n")])
    return all(line in rest for line in lines)


def test_a_key_outside_of_tables_goes_above_the_first_table():
    text = "# RL\n\n[model]\nname = 'x'\n"
    assert written(text, Choice("max_steps", 5), summary=["why"]) == (
        f"# RL\n\n{MARK}why\nmax_steps = 5\n[model]\nname = 'x'\n"
    )


def test_keys_on_one_line_are_named():
    text = "train = { batch_size = 8, mixed_precision = 'fp8' }\n"
    assert written(text, PRECISION, BATCH).splitlines()[2:] == [
        f"{MARK}train.batch_size: 8 -> 4: why",
        f"{MARK}train.mixed_precision: fp8 -> bf16: why",
        "train = { batch_size = 4, mixed_precision = 'bf16' }",
    ]


def test_comments_of_an_earlier_version_and_its_ignores_are_replaced():
    old = "[train]\n# mine\n# fp8tune search: 4 -> 8: +3 %\n# fp8tune search: trial 3\n"
    ignore = f"# fp8tune: ignore[may-not-fit] -- {MEASURED} 71.0 of 79.1 GiB\n"
    mine = "# fp8tune: ignore[may-not-fit] -- seen to fit\n"
    text = f"{old}{ignore}{mine}batch_size = 8\n# fp8tune search: x\nseq_len = 1"
    assert written(text, BATCH, summary=()) == (
        f"[train]\n# mine\n{mine}{MARK}8 -> 4: why\nbatch_size = 4\nseq_len = 1"
    )


@pytest.mark.parametrize(
    "odd", ["\0", "\x1b[2J", "\x85", "\u202e", "\ud800", "word " * 70]
)
def test_a_block_has_few_short_lines_whatever_a_record_says(odd):
    after = written(
        CONFIG, BATCH._replace(reason=f"8 -> 4 {odd}"), summary=[f"H200 {odd}"] * 30
    )
    own = [line for line in after.splitlines() if MARK in line]
    assert tomllib.loads(after)["train"]["batch_size"] == 4
    assert BLOCK <= len(own) <= BLOCK + 5
    assert max(map(len, own)) <= WIDTH
    assert after.replace("\n", "").isprintable()


@pytest.mark.parametrize("long", ["9" * 10**6, "word " * 900])
def test_a_text_is_written_whole_or_not_at_all(long):
    after = written(CONFIG, BATCH._replace(reason=long), summary=[long, "end"])
    own = [line for line in after.splitlines() if MARK in line]
    assert own == [f"{MARK}end"]


def test_sentences_are_wrapped_at_words_and_a_unit_stays_with_its_number():
    text = f"{'word ' * 15}+1.9 % {'word ' * 10}a/{'long' * 30}"
    after = written(CONFIG, BATCH, summary=[text, "end"])
    own = [line.removeprefix(MARK) for line in after.splitlines() if MARK in line]
    assert " ".join(own) == f"{text} end 8 -> 4: why"
    assert not any(line.startswith("%") for line in own)


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.toml", "[a]\nx = 1\ny = 2\n", "[a]\n@y = 2\n"),
        ("a.yaml", "a:\n  x: 1\n  y: 2\n", "a:\n  @y: 2\n"),
        ("a.json", '{"a": {"x": 1, "y": 2}}', '{"a": {"y": 2}}'),
    ],
)
def test_a_key_is_removed_where_it_is(path, before, after):
    gone = [Choice("a.x", None, "1 -> not set"), Choice("b.c", None, "-")]
    said = f"{MARK}a.x: 1 -> not set\n{'  ' * (path == 'a.yaml')}"
    made = write_back(before.encode(), gone, path=path, reads="pyyaml").decode()
    assert made == after.replace("@", said)
    assert write_back(before.encode(), gone[1:], path=path) == before.encode()
