"""Names and expressions in rules of users: what is wrong is said with its place."""

import pytest

from tests.each import each
from tests.lint.pack import GOOD, reason


@each(
    ("when", "said"),
    [
        ("'nosuch > 1'", ":7:9: unknown name `nosuch`"),
        ("'tp > 1 and train.seq_len > 2'", ":7:20: unknown name `train.seq_len`"),
        ("'tp >'", ":7:13: invalid syntax"),
        ("'tp ==== 1'", ":7:14: invalid syntax"),
        ("'open(tp)'", ":7:9: no such function; there are defined, written, key, "),
        ("'''\ntp > 1 and\n  nosuch'''", ":9:3: unknown name `nosuch`"),
        ("'''tp > 1 and\n  nosuch'''", ":8:3: unknown name `nosuch`"),
        ('"""\ntp > 1 and\n  nosuch"""', ":9:3: unknown name `nosuch`"),
        ("'''\nnosuch'''", ":8:1: unknown name `nosuch`"),
        ("'fault.key == 1'", ":7:9: unknown name `fault.key`"),
        ("'precision == \"é\" and nosuch'", ":7:30: unknown name `nosuch`"),
    ],
)
def test_condition(tmp_path, when, said):
    text = reason(tmp_path, GOOD.replace("'tp > 1'", when))
    assert text.startswith(said)


@each(
    ("name", "near"),
    [
        ("gpu.fp8_matmull", "gpu.fp8_matmul"),
        ("memory.peak_gb", "memory.peak_gib"),
    ],
)
@each(
    ("place", "text", "at"),
    [
        ("when", "when = 'tp > 1 and {}'", "7:20"),
        ("message", 'message = "x {{{}}}"', "8:15"),
        ("help", 'help = "{{{}}}"', "8:10"),
        ("label", 'label = "at {{{}:.1f}}"', "12:14"),
        ("key", 'key = "{}"', "11:8"),
    ],
)
def test_did_you_mean(tmp_path, place, text, at, name, near):
    wrong = text.format(name)
    lines = [
        wrong if line.startswith(f"{place} = ") else line for line in GOOD.splitlines()
    ]
    if wrong not in lines:
        lines.insert(7, wrong)
    said = reason(tmp_path, "\n".join(lines))
    assert said == f":{at}: unknown name `{name}`; did you mean `{near}`?"


def test_a_text_with_escapes_is_pointed_at_as_a_whole(tmp_path):
    wrong = GOOD.replace('"tp is {tp}"', r'"say \"x\" {nosuch}"')
    assert reason(tmp_path, wrong) == ":8:11: unknown name `nosuch`"


def test_the_wrong_one_of_several_keys_is_pointed_at(tmp_path):
    text = GOOD.replace('key = "tp"', 'key = ["tp", "nosuch"]')
    assert reason(tmp_path, text) == ":11:15: unknown name `nosuch`"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('"{"', ":8:12: a lone brace; write {{ or }}"),
        ('"""\n{tp}\n{tp +}"""', ":10:6: invalid syntax"),
        ('"{tp ; 3}"', ":8:16: invalid syntax"),
    ],
)
def test_message(tmp_path, message, said):
    assert reason(tmp_path, GOOD.replace('"tp is {tp}"', message)).startswith(said)


def test_facts_of_the_fault_are_suggested(tmp_path):
    text = GOOD.replace("when = 'tp > 1'", 'fault = "unknown-key"')
    said = reason(tmp_path, text.replace("{tp}", "{fault.nam}"))
    assert said == ":8:19: unknown name `fault.nam`; did you mean `fault.name`?"


def test_keys_of_the_trainer_are_suggested(tmp_path):
    text = GOOD.replace("[[at]]", 'trainer = "kempnerforge"\n[[at]]')
    said = reason(tmp_path, text.replace("tp > 1", "train.seqlen > 1"))
    assert said == ":7:9: unknown name `train.seqlen`; did you mean `train.seq_len`?"
