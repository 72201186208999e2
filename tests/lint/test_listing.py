"""The list of rules fits a terminal."""

from fp8tune.lint.listing import WIDTH, as_text


def test_no_line_is_too_long(builtin):
    assert [line for line in as_text(builtin).split("\n") if len(line) > WIDTH] == []


def test_every_rule_begins_a_line_and_summaries_share_a_column(builtin):
    lines = as_text(builtin).split("\n")
    heads = [line for line in lines if line[0] != " "]
    words = [tuple(line.split()[:3]) for line in heads]
    assert words == [(rule.code, rule.name, rule.severity) for rule in builtin]
    column = lines[0].index(builtin[0].summary[:20])
    assert {line[column - 1] for line in lines} == {" "}
    assert " ".join(" ".join(line[column:] for line in lines).split()) == " ".join(
        rule.summary for rule in builtin
    )


def test_no_rules():
    assert as_text([]) == ""
