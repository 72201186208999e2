"""What a YAML text says, where it stands, and which texts are refused."""

import sys

import pytest

from fp8tune.formats import format_of, parse
from fp8tune.formats.document import InvalidText, NoReader, Unreadable, Unresolved
from tests.each import each

TEXT = """\
# head
mixed_precision: fp8   # why
fp8_config: &base
  backend: TE
  'quoted': "x # y"
list:
- a
- b: 1
flow: {c: [1, 2], d: }
copy:
  <<: *base
  backend: AO
text: |  # header
  # no comment
  two
empty:
mixed_precision: bf16
"""


def doc(text, path="a.yaml"):
    return parse(text.encode(), path)


def written(document, spans):
    return {".".join(map(str, p)): document.text[slice(*s)] for p, s in spans.items()}


def test_values():
    assert doc(TEXT).values == {
        "mixed_precision": "bf16",
        "fp8_config": {"backend": "TE", "quoted": "x # y"},
        "list": ["a", {"b": 1}],
        "flow": {"c": [1, 2], "d": None},
        "copy": {"backend": "AO", "quoted": "x # y"},
        "text": "# no comment\ntwo\n",
        "empty": None,
    }


def test_spans():
    document = doc(TEXT)
    assert written(document, document.spans.values) == {
        "mixed_precision": "bf16",
        "fp8_config.backend": "TE",
        "fp8_config.quoted": '"x # y"',
        "list": "- a\n- b: 1",
        "list.0": "a",
        "list.1": "b: 1",
        "list.1.b": "1",
        "flow": "{c: [1, 2], d: }",
        "flow.c": "[1, 2]",
        "flow.c.0": "1",
        "flow.c.1": "2",
        "flow.d": "",
        "copy.backend": "AO",
        "copy.quoted": '"x # y"',
        "text": "|  # header\n  # no comment\n  two",
        "empty": "",
    }
    keys = written(document, document.spans.keys)
    assert keys.pop("fp8_config.quoted") == keys.pop("copy.quoted") == "'quoted'"
    assert keys == {path: path.rpartition(".")[2] for path in keys}
    assert len(document.spans.names["mixed_precision",]) == 2
    assert document.span(("fp8_config",), "value") == document.span(
        ("fp8_config",), "key"
    )


def test_comments():
    document = doc(TEXT)
    comments = [document.text[slice(*span)] for span in document.comments()]
    assert comments == ["# head", "# why", "# header"]


def test_a_repeated_key_says_where_it_stood_before():
    (again,) = doc(TEXT).repeated
    lines = [doc(TEXT).lines.position(s[0]).line for s in (again.first, again.span)]
    assert (again.path, lines, again.refused) == (("mixed_precision",), [2, 17], False)
    document = doc("a: {b: 1, b: 2}\nc: {<<: {d: 1}, d: 2}\n")
    document.read_as("omegaconf")
    assert [(one.path, one.refused) for one in document.repeated] == [
        (("a", "b"), True)
    ]


def test_merges_win_in_the_order_of_safe_load():
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], c: 3}\n"
    assert doc(text).values["z"] == {"a": 1, "b": 1, "c": 3}
    spans = doc(text).spans.values
    assert spans["z", "b"] == spans["x", "b"]


@each(
    ("text", "values"),
    [
        ("", {}),
        ("\ufeffa: 1\n", {"a": 1}),
        ("on: 1\n2: x\n", {"on": 1, "2": "x"}),
        ("a: 1\r\nb: |\r\n  x\r\n", {"a": 1, "b": "x\n"}),
        ("a: ${HOME}/x\n", {"a": "${HOME}/x"}),
    ],
)
def test_odd_texts(text, values):
    assert doc(text).values == values
    assert doc(text).bom == text.startswith("\ufeff")


JINJA = "this looks like a Jinja template: render it first, and lint the result"
TAB = "YAML takes no tab here: write spaces"


@each(
    ("text", "place", "reason", "hint"),
    [
        ("a: {{ x }}\n", (1, 5), "a key that is itself a list or mapping", JINJA),
        ("a: 1\n---\nb: 1\n", (2, 1), "a second document begins here", ""),
        ("a:\n\tb: 1\n", (2, 1), "found character '\\t' that cannot start", TAB),
        ("a: !!python/name:os.system\n", (1, 4), "yaml.safe_load does not know", ""),
        ("a: !!int x\n", (1, 4), "invalid literal for int()", ""),
        ("a: 2026-13-01\n", (1, 4), "month must be in 1..12", ""),
        ("a: &b 1\nc: &b 2\n", (2, 4), "this anchor is set above", ""),
        ("a: {<<: 1}\n", (1, 9), "`<<` takes mappings", ""),
        ("a: \x07\n", (1, 4), "a control character", ""),
    ],
)
def test_what_safe_load_refuses(text, place, reason, hint):
    with pytest.raises(InvalidText) as error:
        doc(text)
    found = error.value
    assert (found.position, found.format, found.hint) == (place, "yaml", hint)
    assert found.reason.startswith(reason)


DEEP = "nested more than 100 levels deep: not a train config"
BOMB = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
MERGES = "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 30)
)
MANY = "more than 131072 values: not a train config"


@each(
    ("text", "reason"),
    [
        ("a: " + "[" * 100_000, DEEP),
        ("a: " + '["]", ' * 150_000, DEEP),
        ("a:\n " + "- " * 500_000, DEEP),
        ("".join(f"{' ' * i}a:\n" for i in range(200)), DEEP),
        (f"a0: &a0 [1, 2]\n{BOMB}", MANY),
        (f"a0: &a0 {{x: 1}}\n{MERGES}", MANY),
        ("a: &a [*a]\n", "line 1: an alias contains itself"),
        ("a: 1\n" * 300_000, "a file of more than 1 MiB is not a train config"),
        ("- a\n", "no train config: at its top there are no keys"),
        ("b: 1\na: !!set {x}\n", "line 2: fp8tune does not read tag:yaml.org,2002:set"),
    ],
    ids=range(10),
)
def test_what_is_not_read(text, reason):
    with pytest.raises(Unreadable) as error:
        doc(text)
    assert str(error.value) == reason


REFERENCES = """\
a: true
f: 5e-5
whole: ${a}
part: x/${r.l[1]}/${f}
again: ${ whole }
r: {l: [1, 2], far: "${r.l.1}", near: "${.l}", items: [1, "${nosuch}"]}
env: ${oc.env:HOME,x}/$USER
text: $USER
round: ${round}
"""
LEFT = {"far": "${r.l.1}", "near": "${.l}", "items": [1, "${nosuch}"]}


@each(
    ("loader", "values", "unresolved"),
    [
        (
            "omegaconf",
            {"whole": "${a}", "part": "x/${r.l[1]}/${f}", "r": {"l": [1, 2], **LEFT}},
            [],
        ),
        (  # as OmegaConf 2.3.0 resolves it
            "omegaconf+references",
            {"whole": True, "again": True, "part": "x/2/5e-05", "text": "$USER"},
            ["env", "r.items", "r.near", "round"],
        ),
        (
            "pyyaml+environment",
            {"a": True, "f": "5e-5"},
            [
                "again",
                "env",
                "part",
                "r.far",
                "r.items",
                "r.near",
                "round",
                "text",
                "whole",
            ],
        ),
    ],
)
def test_what_a_loader_fills_in(loader, values, unresolved):
    document = doc(REFERENCES)
    document.read_as(loader)
    found = document.values
    assert {key: found[key] for key in values} == values
    flat = {**found, **{f"r.{key}": value for key, value in found["r"].items()}}
    lost = (key for key, value in flat.items() if isinstance(value, Unresolved))
    assert sorted(lost) == unresolved
    assert document.read(REFERENCES).values == found


def test_without_pyyaml(monkeypatch):
    for module in [m for m in sys.modules if m.startswith("fp8tune.formats.yaml.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(
        NoReader, match=r"reading YAML needs PyYAML: pip install PyYAML"
    ):
        doc("a: 1\n")


@each(
    ("path", "name"),
    [
        ("a.yaml", "yaml"),
        ("x/b.YML", "yaml"),
        ("a.toml", "toml"),
        ("-", "toml"),
    ],
)
def test_the_ending_says_the_format(path, name):
    assert format_of(path) == name
