"""Ignore comments: what they silence, and what is said about them."""

from fp8tune.config.mark import read_ignores
from fp8tune.formats.edits import apply
from fp8tune.formats.toml.document import parse
from fp8tune.lint.diagnostic import Diagnostic, Label, Region
from fp8tune.lint.suppress import Sieve
from tests.each import each

TODAY = "2026-11-20"


def finding(rule, *lines):
    labels = tuple(Label("a.b", Region(n, 1, n, 2), "") for n in lines)
    return Diagnostic("x.toml", rule, "X", "slow", "warning", "m", "", "", labels)


def sieve(text):
    document = parse(text.encode())
    return Sieve(document, read_ignores(document), TODAY)


KNOWN = {"one": "X1", "two": "X2"}


def kinds(found, judged=("one", "two")):
    return [fault.kind for fault in found.faults(KNOWN, frozenset(judged))]


@each(
    ("text", "line"),
    [
        ("a = 1  # fp8tune: ignore[one]\n", 1),
        ("a = 1  # fp8tune: ignore[two, one] -- because\n", 1),
        ("a = 1 #fp8tune: ignore[one] until=2026-11-20\n", 1),
        ("a = 1\r\n# fp8tune: ignore[one] -- why\r\nb = 2\r\n", 3),
        ("# fp8tune: ignore[one]\n\n# words\nb = 2\n", 4),
        ('a = """\n# fp8tune: ignore[two]\n"""  # fp8tune: ignore[one]\n', 3),
    ],
)
def test_silences_its_rule_on_its_line(text, line):
    found = sieve(text)
    assert not found.keeps(finding("one", line))
    assert found.keeps(finding("one", line + 1))
    assert found.keeps(finding("three", line))


@each(
    "comment",
    [
        "# fp8tune: ignore",
        "# fp8tune: ignore[one] because",
        "# fp8tune: ignore[one] until=2026-13-01",
        "# fp8tune: ignored",
    ],
)
def test_what_is_not_understood(comment):
    found = sieve(f"a = 1  {comment}\n")
    assert found.keeps(finding("one", 1))
    assert kinds(found) == ["bad-ignore"]


def test_an_expired_one_is_said_and_silences_nothing():
    found = sieve("a = 1  # fp8tune: ignore[one] until=2026-11-19\n")
    assert found.keeps(finding("one", 1))
    assert kinds(found) == ["expired-ignore"]


def test_an_unused_one_is_said_where_the_rule_was_judged():
    found = sieve("a = 1  # fp8tune: ignore[one]\n")
    assert kinds(found) == ["unused-ignore"]
    assert kinds(found, judged=("two",)) == []


NAMES = {"one": "FP8401", "two": "FP8402", "three": "FP8301"}


@each(
    ("name", "hint", "meant", "sure"),
    [
        ("FP8402", "FP8402 is the code of `two`: write the name", "two", True),
        ("TWO", "did you mean `two`?", "two", True),
        ("zzzzzz", "", None, None),
    ],
)
def test_what_an_unknown_name_stands_for(name, hint, meant, sure):
    found = sieve(f"a = 1  # fp8tune: ignore[{name}]\n")
    for rule in ("two", "one"):
        assert found.keeps(finding(rule, 1))
    (fault,) = found.faults(NAMES, frozenset(NAMES))
    facts = fault.facts
    said = (facts["hint"], facts.get("meant"), facts.get("sure"))
    assert (fault.kind, said) == ("unknown-ignore", (hint, meant, sure))


def test_a_code_beside_its_name_goes():
    text = "a = 1  # fp8tune: ignore[one, FP8401]\n"
    found = sieve(text)
    assert not found.keeps(finding("one", 1))
    (fault,) = found.faults(NAMES, frozenset(NAMES))
    assert apply(text, fault.edits) == "a = 1  # fp8tune: ignore[one]\n"


def test_a_rule_that_was_not_selected_is_not_called_unused(fp8tune, project):
    text = "[train]\nseed = 1  # fp8tune: ignore[warmup-longer-than-run]\n"
    project({"a.toml": text})
    assert fp8tune("lint", "a.toml", "--ignore", "warmup-longer-than-run").code == 0
    said = fp8tune("lint", "a.toml", "--output-format", "json").json
    assert [d["rule"] for d in said["diagnostics"]] == ["unused-ignore"]


def test_on_another_gpu_it_may_be_needed(fp8tune, project):
    """An ignore that a GPU of the file needs is not unused on one of the command."""
    text = (
        "# fp8tune: world-size=16\n[train]\n"
        'mixed_precision = "fp8"  # fp8tune: ignore[gpu-without-fp8]\n'
    )
    project({"a.toml": text})

    def rules(*more):
        said = fp8tune("lint", "a.toml", "--output-format", "json", *more).json
        return [d["rule"] for d in said["diagnostics"] if "ignore" in d["rule"]]

    assert rules("--gpu", "a100-80gb") == []
    assert rules("--gpu", "h100") == []
    project({"a.toml": text.replace("world-size", "gpu=h100 world-size")})
    assert rules() == ["unused-ignore"]
