"""Counts per rule."""

import pytest

TP = '[train]\nmixed_precision = "fp8"\ncompile_model = false\n[distributed]\ntp = 4\n'
TWICE = "# fp8tune: ignore all\n# fp8tune: ignore this\n"
TABLE = """\
findings  files  level    rule
       2      1  warning  bad-ignore (FP8701)
       2      2  error    fp8-with-tensor-parallel (FP8101)
       1      1  note     fp8-without-compile (FP8401)
       1      1  warning  fp8-without-compile (FP8401)
       6      2  in all
"""
COMMAND = ("lint", ".", "--statistics", "--select")
SELECT = "bad-ignore,fp8-with-tensor-parallel,fp8-without-compile"


@pytest.fixture
def files(project):
    settings = "[tool.fp8tune.severity]\nfp8-without-compile = 'note'\n"
    project({"a.toml": TWICE + TP, "sub/b.toml": TP, "sub/pyproject.toml": settings})


@pytest.mark.parametrize(
    ("output_format", "stream"),
    [
        ("full", "out"),
        ("github", "out"),
        ("concise", "err"),
        ("sarif", "err"),
        ("gitlab", "err"),
        ("junit", "err"),
    ],
)
def test_where_the_table_goes(files, fp8tune, output_format, stream):
    options = ("--output-format", output_format, "-q")
    said = fp8tune(*COMMAND, SELECT, *options)
    assert getattr(said, stream).endswith(TABLE)
    assert TABLE not in getattr(said, {"out": "err", "err": "out"}[stream])
