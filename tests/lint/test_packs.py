"""Rule packs of users: each thing that can be wrong is said with its place."""

import pytest

from fp8tune.lint.packs import MAX_BYTES, MAX_FILES, read_pack
from fp8tune.lint.rules import BadRule

HEAD = """\
name = "my-rule"
code = "ME301"
summary = "A rule"
severity = "warning"
confidence = "high"
since = "1.0"
"""
TAIL = """\
references = ["https://example.org/evidence"]
[[at]]
key = "tp"
label = "here"
"""
GOOD = HEAD + "when = 'tp > 1'\nmessage = \"tp is {tp}\"\n" + TAIL


def reason(tmp_path, text, name="my-rule.toml", category="silent"):
    """The error for a pack of one rule, without the path before the file name."""
    (tmp_path / category).mkdir()
    path = tmp_path / category / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadRule) as error:
        read_pack(str(tmp_path))
    said = str(error.value)
    prefix = f"{path}"
    assert said.startswith(prefix)
    assert "\n" not in said
    return said.removeprefix(prefix)


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


@pytest.mark.parametrize(
    "text",
    [
        GOOD + 'mark = "key"\n',
        GOOD + 'mark = "value"\n',
        GOOD.replace('key = "tp"', 'key = ["tp", "pp", "fault"]'),
        GOOD.replace("[[at]]", 'help = ""\nwhy = ""\nstatus = "preview"\n[[at]]'),
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
    (tmp_path / "silent").mkdir()
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


def test_a_folder_named_like_a_rule(tmp_path):
    path = tmp_path / "silent" / "my-rule.toml"
    path.mkdir(parents=True)
    with pytest.raises(BadRule) as error:
        read_pack(str(tmp_path))
    assert str(error.value) == f"{path}: not a regular file; pipe it in and name it -"


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


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"my-rule"', '"other"', ":1:1: the name must be the file's: my-rule"),
        ('name = "my-rule"', "name = 5", ":1:1: name is a string"),
        ("code = ", "cod = ", ":2:1: unknown key `cod`; did you mean `code`?"),
        ("code = ", "qqqqq = ", ":2:1: unknown key `qqqqq`"),
        ("code = ", 'category = "slow"\ncode = ', ":2:1: unknown key `category`"),
        (
            '"warning"',
            '"warnin"',
            ":4:1: severity is one of error, warning, note; did you mean `warning`?",
        ),
        ('"warning"', '"fatal"', ":4:1: severity is one of error, warning, note"),
        ('"warning"', "1", ":4:1: severity is a string"),
        (
            '"high"',
            '"hihg"',
            ":5:1: confidence is one of certain, high, medium; did you mean `high`?",
        ),
        ('"1.0"', "1.0", ":6:1: since is a string"),
        (
            "since",
            'status = "previw"\nsince',
            ":6:1: status is one of stable, preview, deprecated; "
            "did you mean `preview`?",
        ),
        (
            "since",
            'trainer = "kempnerforg"\nsince',
            ":6:1: trainer is one of kempnerforge; did you mean `kempnerforge`?",
        ),
        ("when = 'tp > 1'", "", ":1:1: a rule has either `when` or `fault`"),
        (
            "when = ",
            'fault = "unknown-key"\nwhen = ',
            ":1:1: a rule has either `when` or `fault`",
        ),
        ("when = 'tp > 1'", "when = true", ":7:1: when is a string"),
        ('name = "my-rule"\n', "", ":1:1: the rule lacks `name`"),
        ('code = "ME301"\n', "", ":1:1: the rule lacks `code`"),
        ('summary = "A rule"\n', "", ":1:1: the rule lacks `summary`"),
        ('severity = "warning"\n', "", ":1:1: the rule lacks `severity`"),
        ('confidence = "high"\n', "", ":1:1: the rule lacks `confidence`"),
        ('since = "1.0"\n', "", ":1:1: the rule lacks `since`"),
        ('message = "tp is {tp}"\n', "", ":1:1: the rule lacks `message`"),
        (
            'references = ["https://example.org/evidence"]\n',
            "",
            ":1:1: the rule lacks `references`: name its evidence",
        ),
        (
            '["https://example.org/evidence"]',
            "[]",
            ":1:1: the rule lacks `references`: name its evidence",
        ),
        (
            '["https://example.org/evidence"]',
            '"https://example.org"',
            ":9:1: references is an array of addresses",
        ),
        (
            '["https://example.org/evidence"]',
            "[5]",
            ":9:1: references is an array of addresses",
        ),
        (
            '[[at]]\nkey = "tp"\nlabel = "here"\n',
            "",
            ":1:1: the rule lacks `[[at]]`: say which key it is about",
        ),
        ("[[at]]", "[at]", ":10:2: write [[at]]"),
        ('[[at]]\nkey = "tp"\nlabel = "here"\n', "at = [1]\n", ":10:1: write [[at]]"),
        ('[[at]]\nkey = "tp"\nlabel = "here"\n', "at = 'tp'\n", ":10:1: write [[at]]"),
        ('key = "tp"\n', "", ":10:3: [[at]] has either `key` or `any`"),
        ('key = "tp"', "key = 5", ":11:1: key is a string or an array of names"),
        (
            'key = "tp"',
            'key = ["tp", 5]',
            ":11:1: key is a string or an array of names",
        ),
        ("label = ", "labl = ", ":12:1: unknown key `labl`; did you mean `label`?"),
        ('"here"', "5", ":12:1: label is a string"),
        ('"here"', '["here"]', ":12:1: label is a string"),
        ("label", 'mark = "both"\nlabel', ":12:1: mark is key or value"),
    ],
)
def test_shape(tmp_path, old, new, said):
    assert GOOD.count(old) == 1
    assert reason(tmp_path, GOOD.replace(old, new)) == said


def test_unknown_fault(tmp_path):
    text = reason(tmp_path, GOOD.replace("when = 'tp > 1'", 'fault = "unknown-keys"'))
    assert text.startswith(":7:1: fault is one of invalid-toml, byte-order-mark, ")
    assert text.endswith("; did you mean `unknown-key`?")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[[bad]]\n", ":13:3: [[bad]] lacks `config`"),
        ("[[good]]\nconfig = 1\n", ":14:1: config is a string"),
        ("[[good]]\nconfig = ['x']\n", ":14:1: config is a string"),
        (
            "[[bad]]\nconfg = ''\n",
            ":14:1: unknown key `confg`; did you mean `config`?",
        ),
        ("[[bad]]\nconfig = ''\n[[bad]]\nalso = []\n", ":15:3: [[bad]] lacks `config`"),
        ("[bad]\nconfig = ''\n", ":13:2: write [[bad]]"),
    ],
)
def test_shape_of_examples(tmp_path, more, said):
    assert reason(tmp_path, GOOD + more) == said


@pytest.mark.parametrize("also", ["'x'", "5", "[5]"])
def test_also_is_an_array_of_rules(tmp_path, also):
    text = reason(tmp_path, GOOD + f"[[bad]]\nconfig = ''\nalso = {also}\n")
    assert text.startswith(":15:1: also is ")


@pytest.mark.parametrize("field", ["name", "code", "summary", "message", "when"])
def test_an_empty_text_says_nothing(tmp_path, field):
    lines = [
        f'{field} = ""' if line.startswith(f"{field} = ") else line
        for line in GOOD.splitlines()
    ]
    assert reason(tmp_path, "\n".join(lines)).startswith(":")


def test_an_empty_list_of_keys_points_at_nothing(tmp_path):
    assert reason(tmp_path, GOOD.replace('key = "tp"', "key = []")).startswith(":11:")


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("'nosuch > 1'", ":7:9: unknown name `nosuch`"),
        ("'tp > 1 and precison == 1'", ":7:20: unknown name `precison`"),
        ("'tp > 1 and train.seq_len > 2'", ":7:20: unknown name `train.seq_len`"),
        ("'tp >'", ":7:13: invalid syntax"),
        ("'tp ==== 1'", ":7:14: invalid syntax"),
        ('"tp ==== 1"', ":7:14: invalid syntax"),
        ("'open(tp)'", ":7:9: no such function; there are defined, written, key, "),
        ("'''\ntp > 1 and\n  nosuch'''", ":9:3: unknown name `nosuch`"),
        ("'''tp > 1 and\n  nosuch'''", ":8:3: unknown name `nosuch`"),
        ('"""\ntp > 1 and\n  nosuch"""', ":9:3: unknown name `nosuch`"),
        ('"""\r\ntp > 1 and\r\n  nosuch"""', ":9:3: unknown name `nosuch`"),
        ("'''\nnosuch'''", ":8:1: unknown name `nosuch`"),
        ("'fault.key == 1'", ":7:9: unknown name `fault.key`"),
        ("'precision == \"é\" and nosuch'", ":7:30: unknown name `nosuch`"),
    ],
)
def test_condition(tmp_path, when, said):
    text = reason(tmp_path, GOOD.replace("'tp > 1'", when))
    assert text.startswith(said)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("precison", "precision"),
        ("gpu.fp8_matmull", "gpu.fp8_matmul"),
        ("memory.peak_gb", "memory.peak_gib"),
        ("worldsize", "world_size"),
    ],
)
@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r'"say \"x\" {nosuch}"', ":8:23: unknown name `nosuch`"),
        (r'"\u00e9 {nosuch}"', ":8:20: unknown name `nosuch`"),
    ],
)
def test_columns_count_the_characters_of_the_file_where_it_escapes(
    tmp_path, text, said
):
    wrong = GOOD.replace('"tp is {tp}"', text)
    assert reason(tmp_path, wrong).startswith(said)


def test_the_wrong_one_of_several_keys_is_pointed_at(tmp_path):
    text = GOOD.replace('key = "tp"', 'key = ["tp", "nosuch"]')
    assert reason(tmp_path, text) == ":11:15: unknown name `nosuch`"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('"{"', ":8:12: a lone brace; write {{ or }}"),
        ('"a {tp"', ":8:14: a lone brace; write {{ or }}"),
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


FIXABLE = GOOD + '[[fix]]\nsafety = "safe"\ntitle = "mend"\nset = { tp = "1" }\n'
"""The fix begins on line 13."""


@pytest.mark.parametrize(
    "text",
    [
        FIXABLE,
        FIXABLE
        + '[[fix]]\nsafety = "unsafe"\ntitle = "x"\nchanges = "y"\nremove = ["tp"]',
        FIXABLE.replace("set = ", "rename = "),
        FIXABLE.replace('"1"', "\"fp8.kv_size if defined(world_size) else 'x'\""),
        FIXABLE.replace("tp = ", "micro_batch = "),
        FIXABLE + "when = 'written(tp) and world_size > 1'\n",
        FIXABLE.replace("mend", "{tp} of {world_size}"),
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
    (tmp_path / "silent").mkdir()
    (tmp_path / "silent" / "my-rule.toml").write_text(text)
    (rule,) = read_pack(str(tmp_path))
    assert len(rule.fixes) == text.count("[[fix]]")


SHAPES = "write [[fix]]"
NOTHING = "a fix has `set`, `rename`, `move`, `header` or `remove`"
TABLE = "is a table of names and expressions; write dotted names in quotes"
CHANGES = "an unsafe fix says in `changes` what becomes of the run"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[fix]]", "[fix]", f":13:2: {SHAPES}"),
        ('safety = "safe"\n', "", ":13:3: [[fix]] lacks `safety`"),
        ('title = "mend"\n', "", ":13:3: [[fix]] lacks `title`"),
        ('"safe"', '"saef"', ":14:1: safety is safe or unsafe; did you mean `safe`?"),
        ('"safe"', '"never"', ":14:1: safety is safe or unsafe"),
        ('"safe"', "true", ":14:1: safety is a string"),
        ('"safe"', '"unsafe"', f":13:3: {CHANGES}"),
        ('"safe"', '"unsafe"\nchanges = " "', f":13:3: {CHANGES}"),
        ('"mend"', '" "', ":15:1: title is empty"),
        ('"mend"', "1", ":15:1: title is a string"),
        ("title = ", "titel = ", ":15:1: unknown key `titel`; did you mean `title`?"),
        ('set = { tp = "1" }\n', "", f":13:3: {NOTHING}"),
        ('{ tp = "1" }', "{}", f":13:3: {NOTHING}"),
        ('set = { tp = "1" }', 'also = ["x"]', ":16:1: unknown key `also`"),
        ('{ tp = "1" }', '"tp"', f":16:1: set {TABLE}"),
        ('{ tp = "1" }', "{ tp = 1 }", f":16:1: set {TABLE}"),
        ("{ tp = ", "{ train.tp = ", f":16:1: set {TABLE}"),
        ('set = { tp = "1" }', 'remove = "tp"', ":16:1: remove is an array of names"),
        ('set = { tp = "1" }', "remove = []", ":16:1: remove is an array of names"),
        ('set = { tp = "1" }', "remove = [1]", ":16:1: remove is an array of names"),
        ("{ tp = ", "{ tpp = ", ":16:9: unknown name `tpp`; did you mean `tp`?"),
        ("{ tp = ", "{ zzzzz = ", ":16:9: unknown name `zzzzz`"),
        (
            "{ tp = ",
            '{ "train.seq_len" = ',
            ":16:9: unknown name `train.seq_len`",
        ),
        (
            "{ tp = ",
            '{ "fp8.kv_size" = ',
            ":16:9: no key says `fp8.kv_size`; name the keys that it follows from",
        ),
        (
            "{ tp = ",
            "{ world_size = ",
            ":16:9: no key says `world_size`; name the keys that it follows from",
        ),
        ("{ tp = ", "{ fault = ", ":16:9: only a rule with `fault` speaks of one"),
        (
            'set = { tp = "1" }',
            'remove = ["tp", "tpp"]',
            ":16:17: unknown name `tpp`; did you mean `tp`?",
        ),
        (
            'set = { tp = "1" }',
            'remove = [\n  "fault",\n]',
            ":17:3: only a rule with `fault` speaks of one",
        ),
        ('"1"', '"tpp"', ":16:15: unknown name `tpp`; did you mean `tp`?"),
        ('"1"', '"1 +"', ":16:18: invalid syntax"),
        ('"1"', '""', ":16:15: empty"),
        (
            'set = { tp = "1" }',
            '[fix.set]\ntp = "tpp"',
            ":17:7: unknown name `tpp`; did you mean `tp`?",
        ),
        (
            '"mend"',
            '"set {tpp}"',
            ":15:15: unknown name `tpp`; did you mean `tp`?",
        ),
        ('"mend"', '"set {tp"', ":15:14: a lone brace; write {{ or }}"),
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
        ("set = {", 'rename = { pp = "tpp" }\nset = {', ":16:18: unknown name `tpp`"),
        ("set = {", 'move = { pp = "tpp" }\nset = {', ":16:16: unknown name `tpp`"),
        ("set = {", 'header = { ppp = "1" }\nset = {', ":16:12: unknown name `ppp`"),
    ],
)
def test_fixes(tmp_path, old, new, said):
    assert FIXABLE.count(old) == 1
    assert reason(tmp_path, FIXABLE.replace(old, new)).startswith(said)


def test_the_wrong_one_of_several_fixes_is_pointed_at(tmp_path):
    more = '[[fix]]\nsafety = "safe"\ntitle = "x"\nset = { tp = "tpp" }\n'
    assert reason(tmp_path, FIXABLE + more).startswith(":20:15: unknown name `tpp`")


@pytest.mark.parametrize("fixed", ["1", "['x']"])
def test_fixed_is_a_text(tmp_path, fixed):
    text = FIXABLE + f"[[bad]]\nconfig = ''\nfixed = {fixed}\n"
    assert reason(tmp_path, text) == ":19:1: fixed is a string"
