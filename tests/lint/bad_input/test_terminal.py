"""Text that would act on a terminal, in configs, options and settings."""

import re

from tests.conftest import forget_settings
from tests.each import each
from tests.formats.toml.clock import soon
from tests.lint.bad_input.cases import DEEP, DIGITS, NASTY, PLACES, escaped
from tests.lint.bad_input.running import FORMATS, in_order, lint, lint_all


@each("place", range(len(PLACES)), ids=PLACES)
@each("text", range(len(NASTY)), ids=NASTY)
def test_nothing_acts_on_the_terminal(place, text):
    """Every text at every place; the formats take turns."""
    output_format = FORMATS[(place + text) % len(FORMATS)]
    template, odd = [*PLACES.values()][place], [*NASTY.values()][text]
    for form in (odd, escaped(odd)):
        data = template.format(form, form).encode()
        in_order(lint("--output-format", output_format, "-", stdin=data), output_format)


@each("text", NASTY.values(), ids=NASTY)
@each(
    "option",
    [
        *("--gpu", "--trainer", "--select", "--ignore", "--rules", "--world-size"),
        *("--output-format", "--fail-on", "--stdin-filename", "--no-such-option"),
    ],
)
def test_options_that_act_on_the_terminal(option, text, folder):
    in_order(lint(option, text.replace("\0", ""), "-", stdin=b"[train]\nx = 1\n"))
    in_order(lint(f"{option}={text}".replace("\0", ""), "-", stdin=b"x = ?"))
    in_order(lint(f"-{text}".replace("\0", "")))


SETTINGS = {
    "key": '[tool.fp8tune]\n"{}" = 1\n',
    "gpu": '[tool.fp8tune]\ngpu = "{}"\n',
    "trainer": '[tool.fp8tune]\ntrainer = "{}"\n',
    "select": '[tool.fp8tune]\nselect = ["{}"]\n',
    "severity": '[tool.fp8tune.severity]\n"{}" = "error"\n',
    "exclude": '[tool.fp8tune]\nexclude = ["{}"]\n',
    "rules": '[tool.fp8tune]\nrules = ["{}"]\n',
    "ignores": '[tool.fp8tune.per-file-ignores]\n"*" = ["{}"]\n',
    "error": "[tool.fp8tune]\nx = {}\n",
    "table-twice": '[tool.fp8tune]\n["{0}"]\n["{0}"]\n',
}


@each("text", NASTY.values(), ids=NASTY)
@each("place", SETTINGS.values(), ids=SETTINGS)
def test_settings_that_act_on_the_terminal(place, text, folder):
    (folder / "a.toml").write_text("[train]\nbatch_size = 0\n")
    for index, form in enumerate((text, escaped(text))):
        inner = folder / str(index)
        inner.mkdir(exist_ok=True)
        (inner / "pyproject.toml").write_bytes(place.format(form).encode())
        (inner / "a.toml").write_text("[train]\nbatch_size = 0\n")
        forget_settings()
        lint_all(str(inner / "a.toml"))


@each(
    "data",
    [
        b"\xff fp8tune",
        b"\0 fp8tune",
        b"fp8tune = " + b"[" * DEEP,
        b"fp8tune = " + DIGITS.encode(),
        b"fp8tune = " + b"{a=" * DEEP,
        b"tool = 'fp8tune'",
        b"tool.fp8tune = []",
        b"[[tool.fp8tune]]",
        b"\xef\xbb\xbf[tool.fp8tune]\n",
        b"[tool.fp8tune]\nworld-size = nan",
        b"[tool.fp8tune]\nworld-size = 0x" + b"f" * 6000,
        b"[tool.fp8tune]\ngpu = 0x" + b"f" * 6000,
        b"[tool.fp8tune]\ngpu = []",
        b"[tool.fp8tune]\ngpu = [1]",
        b"[tool.fp8tune]\ntrainer = [1]",
        b"[tool.fp8tune]\ntrainer = {a = 1}",
        b"[tool.fp8tune]\nselect = 'x'",
        b"[tool.fp8tune]\nselect = [1]",
        b"[tool.fp8tune]\nselect = ['']",
        b"[tool.fp8tune]\nseverity = 1",
        b"[tool.fp8tune.severity]\nFP8 = []",
        b"[tool.fp8tune.severity]\nFP8 = {}",
        b"[tool.fp8tune.per-file-ignores]\n'*' = [[]]",
        b"[tool.fp8tune.per-file-ignores]\n'[' = ['FP8']",
        b"[tool.fp8tune]\nexclude = ['[', '', '/', '\\']",
        b"[tool.fp8tune]\nexclude = ['" + b"*a" * 5000 + b"']",
        b'[tool.fp8tune]\nexclude = ["\\u0000"]',
        b'[tool.fp8tune]\nrules = ["\\u0000"]',
        b"[tool.fp8tune]\nrules = ['', '.']",
        b"[tool.fp8tune]\nrules = ['pyproject.toml']",
        b"[tool.fp8tune]\nrules = ['" + b"x" * 5000 + b"']",
    ],
    ids=lambda data: repr(data[:60]),
)
def test_odd_settings(data, folder):
    (folder / "pyproject.toml").write_bytes(data)
    (folder / "a.toml").write_text("[train]\nbatch_size = 0\n")
    forget_settings()
    with soon():
        lint_all("a.toml")
        lint_all(".")


def test_colour_is_all_that_acts(folder, monkeypatch):
    """With colour only the sequences of our own are left."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    for place in PLACES.values():
        for text in NASTY.values():
            data = place.format(escaped(text), escaped(text)).encode()
            ended = lint("-", stdin=data)
            in_order(ended._replace(out=re.sub(r"\x1b\[[0-9;]*m", "", ended.out)))
