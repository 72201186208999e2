"""Bytes of any kind, also large and deep ones."""

import tomllib

import pytest

from tests.each import each
from tests.formats.toml.clock import soon
from tests.lint.bad_input.cases import BYTES, CONFIG, VLM_CONFIG
from tests.lint.bad_input.running import in_order, lint, lint_all, lint_bytes


@pytest.mark.parametrize("text", [CONFIG, VLM_CONFIG])
def test_the_configs_below_are_fine(text):
    """The mutations of this file start from configs without errors."""
    assert lint("-", stdin=text.encode()).code == 0


@each("data", BYTES.values(), ids=BYTES)
def test_bytes_on_stdin(data):
    with soon():
        lint_bytes(data)


@pytest.mark.parametrize(
    "name",
    [
        *("empty", "nul", "invalid-utf-8", "utf-16", "utf-8-bom", "all-bytes"),
        *("escape-sequences", "one-line-of-3-mb", "one-value-of-1-mb", "deep-array"),
        *("many-tables", "many-tables-and-train", "sections-not-tables"),
    ],
)
def test_bytes_in_a_file(name, folder):
    (folder / "a.toml").write_bytes(BYTES[name])
    with soon():
        lint_all("a.toml")
        lint_all(".")


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


REPAIRED = ("utf-8-bom", "all-bytes", "hashes", "stray-keys")


@pytest.mark.parametrize("option", ["--fix", "--unsafe-fixes"])
@pytest.mark.parametrize("name", REPAIRED)
def test_bytes_are_mended(name, option, folder):
    (folder / "a.toml").write_bytes(BYTES[name])
    with soon(60):
        assert lint("a.toml", option).code in (0, 1)


def test_a_thousand_typos_are_mended(folder):
    entry = "[[data.datasets]]\npath = 'x'\nwieght = 2.0\n"
    (folder / "a.toml").write_text("[data]\n" + 1000 * entry)
    with soon(60):
        assert lint("a.toml", "--unsafe-fixes").code == 0
    text = (folder / "a.toml").read_text()
    assert (text.count("\nweight"), text.count("wieght")) == (1000, 0)
