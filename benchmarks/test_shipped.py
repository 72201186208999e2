"""The table of findings on configs that projects ship."""

from benchmarks.shipped import table


def diagnostic(path, rule, key="fp8"):
    return {"path": path, "rule": rule, "key": key, "severity": "error"}


def test_files_with_the_same_findings_share_a_row():
    names = [f"a/{name}.yaml" for name in "abcd"]
    found = [diagnostic(name, "x") for name in names]
    found += [diagnostic("a/e.yaml", "x", key) for key in ("m", "n", "n")]
    assert list(table({"files": 6, "diagnostics": found}, "a"))[4:] == [
        "| a.yaml, b.yaml, c.yaml and 1 more | error `x` of `fp8` |",
        "| e.yaml | error `x` of `m`; error `x` of `n`, 2 times |",
    ]
