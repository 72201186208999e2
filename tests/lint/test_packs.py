"""Rule packs of users: the folders, and the shape of each file."""

import pytest

from fp8tune.lint.packs import MAX_BYTES, MAX_FILES, read_pack
from fp8tune.lint.rules import BadRule
from fp8tune.trainers.about import trainers
from tests.each import each
from tests.lint.pack import GOOD, reason


def test_good_pack(tmp_path):
    for category in ("crash", "hygiene"):
        (tmp_path / category).mkdir()
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "hygiene" / "notes.txt").write_text("x")
    (tmp_path / "hygiene" / "my-rule.toml").write_text(GOOD)
    (tmp_path / "crash" / "other.toml").write_text(GOOD.replace("my-rule", "other"))
    read = [
        (r.category, r.name, r.message.fill({"tp": 2})) for r in read_pack(tmp_path)
    ]
    assert read == [("crash", "other", "tp is 2"), ("hygiene", "my-rule", "tp is 2")]


@each(
    "text",
    [
        GOOD + 'mark = "value"\n',
        GOOD.replace('key = "tp"', 'key = ["tp", "pp", "fault"]'),
        GOOD.replace("[[at]]", 'help = ""\nwhy = ""\n[[at]]'),
        GOOD.replace("[[at]]", 'trainer = "kempnerforge"\n[[at]]').replace(
            "tp > 1", "train.seq_len > 1 and vlm_grid < 0"
        ),
        GOOD.replace("when = 'tp > 1'", 'fault = "unknown-key"').replace(
            "{tp}", "{fault.name} {fault.hint}"
        ),
        GOOD + '[[bad]]\nconfig = ""\nalso = ["x"]\n[[good]]\nconfig = ""\n',
    ],
)
def test_good_variations(tmp_path, text):
    (tmp_path / "silent").mkdir(exist_ok=True)
    (tmp_path / "silent" / "my-rule.toml").write_text(text)
    assert [rule.name for rule in read_pack(str(tmp_path))] == ["my-rule"]


@pytest.mark.parametrize("missing", [True, False])
def test_no_rules(tmp_path, missing):
    folder = tmp_path / "nosuch" if missing else tmp_path
    with pytest.raises(BadRule) as error:
        read_pack(str(folder))
    assert str(error.value) == (
        f"{folder}: no such folder of rules"
        if missing
        else f"{folder}: no rules; they go in folders named rejected, crash, silent, "
        "slow, memory, stability, hygiene"
    )


def test_too_many_rules(tmp_path):
    (tmp_path / "slow").mkdir()
    for number in range(MAX_FILES + 1):
        (tmp_path / "slow" / f"{number}.toml").touch()
    with pytest.raises(BadRule, match=r"more than 2000 rules$"):
        read_pack(str(tmp_path))


@pytest.mark.parametrize("category", ["rejcted", "Silent"])
def test_a_rule_in_a_folder_of_another_name_is_not_lost_in_silence(tmp_path, category):
    for folder, name in (("silent", "my-rule"), (category, "lost-rule")):
        (tmp_path / folder).mkdir()
        text = GOOD.replace("my-rule", name).replace("ME301", name)
        (tmp_path / folder / f"{name}.toml").write_text(text)
    with pytest.raises(BadRule, match=category):
        read_pack(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x" * (MAX_BYTES + 1), ": larger than 64 KiB"),
        ("name = ", ":1:8: Invalid value at the end of the file"),
        ("\nname 5", ":2:6: Expected '=' after a key in a key/value pair"),
        (b"name = '\xff'", ":1:9: not UTF-8: byte 0xff (invalid start byte)"),
        ("a." * 150 + "b = 1", ": a key has more than 100 dotted parts"),
    ],
)
def test_unreadable(tmp_path, text, said):
    assert reason(tmp_path, text) == said


@each(
    ("old", "new", "said"),
    [
        ('"my-rule"', '"other"', ":1:1: the name must be the file's: my-rule"),
        ("code = ", "cod = ", ":2:1: unknown key `cod`; did you mean `code`?"),
        ("code = ", 'category = "slow"\ncode = ', ":2:1: unknown key `category`"),
        (
            '"warning"',
            '"warnin"',
            ":4:1: severity is one of error, warning, note; did you mean `warning`?",
        ),
        (
            '"high"',
            '"hihg"',
            ":5:1: confidence is one of certain, high, medium; did you mean `high`?",
        ),
        (
            "since",
            'trainer = "kempnerforg"\nsince',
            f":6:1: trainer is one of {', '.join(trainers())}; "
            "did you mean `kempnerforge`?",
        ),
        (
            "since",
            'releases = { since = "0.2" }\nsince',
            ":6:1: releases are of one trainer: name it",
        ),
        (
            "since",
            'trainer = "deepspeed"\nreleases = { until = "none" }\nsince',
            ":7:1: releases is one of 0.17.6, 0.18.9, 0.19.8",
        ),
        (
            "since",
            'trainer = "deepspeed"\nreleases = ["0.18.9"]\nsince',
            ":7:1: releases is a table of since and until",
        ),
        ("when = 'tp > 1'", "", ":1:1: a rule has either `when` or `fault`"),
        ("when = 'tp > 1'", "when = true", ":7:1: when is a string"),
        ('name = "my-rule"\n', "", ":1:1: the rule has no `name`"),
        (
            'references = ["https://example.org/evidence"]\n',
            "",
            ":1:1: the rule has no `references`: name its evidence",
        ),
        (
            '["https://example.org/evidence"]',
            '"https://example.org"',
            ":9:1: references is an array of addresses",
        ),
        (
            '[[at]]\nkey = "tp"\nlabel = "here"\n',
            "",
            ":1:1: the rule has no `[[at]]`: say which key it is about",
        ),
        ("[[at]]", "[at]", ":10:2: write [[at]]"),
        ('key = "tp"\n', "", ":10:3: [[at]] has one of `key`, `any` and `value_of`"),
        ('key = "tp"', "key = 5", ":11:1: key is a string or an array of names"),
        ("label = ", "labl = ", ":12:1: unknown key `labl`; did you mean `label`?"),
        ("label", 'mark = "both"\nlabel', ":12:1: mark is key or value"),
        (
            "message = ",
            "same = 'tp'\nmessage = ",
            ":1:1: `same`, `differs` and `when` go together",
        ),
        (
            "message = ",
            "same = 'tp'\ndiffers = 'nosuch'\nmessage = ",
            ":9:12: unknown name `nosuch`",
        ),
    ],
)
def test_shape(tmp_path, old, new, said):
    assert GOOD.count(old) == 1
    assert reason(tmp_path, GOOD.replace(old, new)) == said


def test_unknown_fault(tmp_path):
    text = reason(tmp_path, GOOD.replace("when = 'tp > 1'", 'fault = "unknown-keys"'))
    assert text.startswith(":7:1: fault is one of invalid-toml, invalid-yaml, ")
    assert text.endswith("; did you mean `unknown-key`?")


@each(
    ("more", "said"),
    [
        ("[[bad]]\n", ":13:3: [[bad]] has no `config`"),
        ("[[good]]\nconfig = 1\n", ":14:1: config is a string"),
        (
            "[[bad]]\nconfg = ''\n",
            ":14:1: unknown key `confg`; did you mean `config`?",
        ),
        ("[bad]\nconfig = ''\n", ":13:2: write [[bad]]"),
    ],
)
def test_shape_of_examples(tmp_path, more, said):
    assert reason(tmp_path, GOOD + more) == said
