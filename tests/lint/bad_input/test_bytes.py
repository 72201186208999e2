"""Bytes of any kind, also large and deep ones."""

import tomllib

import pytest

from tests.each import each
from tests.formats.toml.clock import soon
from tests.lint.bad_input.cases import BYTES
from tests.lint.bad_input.running import in_order, lint, lint_bytes


@each("data", BYTES.values(), ids=BYTES)
def test_bytes_on_stdin(data):
    with soon():
        lint_bytes(data)


def parses(text):
    try:
        tomllib.loads(text)
    except (RecursionError, tomllib.TOMLDecodeError):
        return False
    return True


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ("{a = ", "}"), ("[{a = ", "}]")]
)
def test_nesting_of_any_depth(opening, closing):
    """Above all around the depth at which the parser gives up."""
    depths = range(1, 1000)
    limit = max(n for n in depths if parses(f"x = {opening * n}1{closing * n}"))
    ended = {
        depth: in_order(
            lint(
                "-",
                stdin=f"[train]\nmixed_precision = {opening * depth}1{closing * depth}"
                f"\nx = {opening * depth}{closing * depth}\n".encode(),
            )
        )
        for depth in (1, 2, 10, 50, *range(max(51, limit - 60), limit + 10))
    }
    assert {end.code for end in ended.values()} == {1}


def test_hundreds_of_typos_are_mended(folder):
    entry = "[[data.datasets]]\npath = 'x'\nwieght = 2.0\n"
    (folder / "a.toml").write_text("[data]\n" + 500 * entry)
    with soon(60):
        assert lint("a.toml", "--unsafe-fixes").code == 0
    text = (folder / "a.toml").read_text()
    assert (text.count("\nweight"), text.count("wieght")) == (500, 0)
