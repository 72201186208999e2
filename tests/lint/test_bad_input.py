"""Whatever it is given, ``fp8tune lint`` ends in order.

Exit code 0, 1 or 2; no traceback; nothing on the terminal that acts on it; JSON
that parses.
"""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fp8tune.cli import main
from fp8tune.lint.formats.address import well_formed
from fp8tune.toml.document import MAX_BYTES
from fp8tune.trainers.trainer import trainer
from tests.toml import writer
from tests.toml.clock import soon

REPOSITORY = Path(__file__).parent.parent.parent
FORMATS = ("full", "concise", "json")
EXAMPLES = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ACTS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)

CONFIG = """\
# A config that KempnerForge takes.
# fp8tune: gpu=h100 world-size=16

[model]
dim = 4096
n_layers = 32
n_heads = 32
n_kv_heads = 8
vocab_size = 128256
ffn_dim_multiplier = 1.3
max_seq_len = 4096
rope_theta = 500000.0

[train]
batch_size = 8
seq_len = 4096
max_steps = 50
grad_accum_steps = 2
compile_model = true
mixed_precision = "fp8"
activation_checkpointing = "full"

[optimizer]
name = "adamw"
lr = 3e-4
betas = [0.9, 0.95]
fused = true

[scheduler]
name = "cosine"
warmup_steps = 10
min_lr_ratio = 0.1

[data]
tokenizer_path = "gpt2"
phases = [{ start_step = 0 }, { start_step = 20, dataset_weights = { web = 0.5 } }]

[[data.datasets]]
path = "/data/web"
name = "web"
weight = 0.7

[[data.datasets]]
hf_name = "org/code"
weight = 0.3

[distributed]
dp_shard = -1
tp = 1

[checkpoint]
dir = "checkpoints/run"
dyn_ckpt_window = { start = 1, stop = 64 }
async_mode = "async_with_pinned_mem"
"""

VLM_CONFIG = """\
[model]
dim = 4096
max_seq_len = 1024

[train]
batch_size = 4
seq_len = 1024
compile_model = false

[vision_encoder]
type = "random"
feature_dim = 1024
num_tokens = 256

[adapter]
type = "avgpool"

[vlm]
arch = "moma"
freeze_schedule = [{ start_step = 1, specs = [{ module = "adapter" }] }]
moma_modalities = ["image", "text"]

[vlm.moma_experts_per_modality]
image = 4
text = 4

[video]
max_frames = 8

[data]
tokenizer_path = "gpt2"
"""


class Ended(NamedTuple):
    """How a run ended and what it wrote, decoded."""

    code: int
    out: str
    err: str


def lint(*arguments, stdin=b""):
    """Run ``fp8tune lint`` in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with (
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            pytest.raises(SystemExit) as end,
        ):
            main(["lint", *arguments])
    finally:
        sys.stdin = before
    for stream in streams:
        stream.flush()
    return Ended(end.value.code, *(s.buffer.getvalue().decode() for s in streams))


def in_order(ended, output_format="full"):
    """Hold one run to what every run must keep."""
    assert ended.code in (0, 1, 2), ended
    assert not ACTS.findall(ended.out + ended.err)
    assert "Traceback" not in ended.err
    if ended.code == 2:
        assert ended.err.startswith("fp8tune: ")
    if output_format == "json" and ended.out:
        assert json.loads(ended.out)["version"] == 1
    return ended


def lint_all(*arguments, stdin=b""):
    """Run it once in each format; the exit codes are the same."""
    ended = [
        in_order(lint("--output-format", name, *arguments, stdin=stdin), name)
        for name in FORMATS
    ]
    assert len({end.code for end in ended}) == 1
    return ended


def lint_bytes(data):
    return lint_all("-", stdin=data)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("text", [CONFIG, VLM_CONFIG])
def test_the_configs_below_are_fine(text):
    """The mutations of this file start from configs without errors."""
    assert lint("-", stdin=text.encode()).code == 0


DEEP = 20_000
MANY = 5_000
DIGITS = "1" * 6000
BYTES = {
    "empty": b"",
    "nul": b"\0",
    "nul-in-text": b"[train]\nbatch_size = 1\0\n",
    "nuls": bytes(100_000),
    "invalid-utf-8": b"[train]\nmixed_precision = '\xff\xfe'\n",
    "latin-1": "[train] # für\nx = 'ü'\n".encode("latin-1"),
    "utf-16": CONFIG.encode("utf-16"),
    "utf-32": CONFIG.encode("utf-32"),
    "utf-8-bom": CONFIG.encode("utf-8-sig"),
    "two-boms": b"\xef\xbb\xbf\xef\xbb\xbf[train]\n",
    "surrogates": b"[train]\nx = '\xed\xa0\x80'\n",
    "overlong": b"[train]\nx = '\xc0\x80'\n",
    "cut-off-character": b"[train]\nx = '\xf0\x9f\x98",
    "carriage-returns-alone": CONFIG.replace("\n", "\r").encode(),
    "carriage-returns": CONFIG.replace("\n", "\r\n").encode(),
    "form-feeds": CONFIG.replace("\n", "\n\f").encode(),
    "all-bytes": bytes(range(256)) * 50,
    "high-bytes": bytes(range(128, 256)) * 50,
    "escape-sequences": b"\x1b[2J\x1b]0;title\x07\x1bP+q\x1b\\",
    "elf": b"\x7fELF\x02\x01\x01\0" + bytes(1000),
    "gzip": bytes.fromhex("1f8b0800000000000003cb48cdc9c957c840"),
    "one-line-of-3-mb": b"#" * 3_000_000,
    "one-value-of-3-mb": b"[train]\nmixed_precision = '" + b"x" * 3_000_000 + b"'\n",
    "one-value-of-1-mb": b"[train]\nmixed_precision = '" + b"x" * 1_000_000 + b"'\n",
    "one-key-of-1-mb": b"[train]\n" + b"x" * 1_000_000 + b" = 1\n",
    "one-section-of-1-mb": b"[train]\n[" + b"x" * 1_000_000 + b"]\n",
    "one-comment-of-1-mb": b"[train]\nx = 1 #" + b"x" * 1_000_000 + b"\n",
    "one-error-in-1-mb": b"x = '" + b"\t" * 1_000_000 + b"\n",
    "escapes-of-1-mb": b'[train]\nmixed_precision = "' + rb"\u001b" * 170_000 + b'"\n',
    "braces-of-1-mb": b"[train]\nmixed_precision = '" + b"{}" * 500_000 + b"'\n",
    "deep-array": b"[train]\nx = " + b"[" * DEEP,
    "deep-array-closed": b"[train]\nx = " + b"[" * DEEP + b"]" * DEEP,
    "deep-table": b"[train]\nx = " + b"{a=" * DEEP,
    "deep-table-closed": b"[train]\nx = " + b"{a=" * DEEP + b"1" + b"}" * DEEP,
    "deep-header": b"[" + b"train." * DEEP + b"x]\n",
    "deep-key": b"[train]\n" + b"x." * DEEP + b"x = 1\n",
    "deep-key-of-escaped-quotes": b"[train]\nx" + rb'."\""' * 100_000 + b" = 1\n",
    "many-tables": "".join(f"[t{i}]\na = {i}\n" for i in range(DEEP)).encode(),
    "many-tables-and-train": b"[train]\n"
    + "".join(f"[t{i}]\na = {i}\n" for i in range(DEEP)).encode(),
    "many-tables-in-train": "".join(f"[train.t{i}]\n" for i in range(MANY)).encode(),
    "many-keys": b"[train]\n" + "".join(f"k{i} = 1\n" for i in range(MANY)).encode(),
    "many-keys-on-one-line": f"train = {{{'k%d = 1, ' * 5000 % tuple(range(5000))}"
    "k = 1}".encode(),
    "many-datasets": b"[[data.datasets]]\n" * MANY,
    "many-phases": b"[data]\nphases = [" + b"1," * MANY + b"]\n",
    "many-directives": b"# fp8tune: gpu=h100\n" * 50_000 + b"[train]\n",
    "many-empty-directives": b"# fp8tune:\n" * 90_000 + b"[train]\n",
    "many-wrong-directives": b"# fp8tune: a\n" * 75_000 + b"[train]\n",
    "many-words": b"# fp8tune:" + b" gpu" * 250_000 + b"\n[train]\n",
    "many-short-words": b"# fp8tune:" + b" a" * 500_000 + b"\n[train]\n",
    "one-long-word": b"# fp8tune: gpu=" + b"h" * 1_000_000 + b"\n[train]\n",
    "modality-of-6000-digits": b'[train]\n[vlm]\narch = "moma"\n'
    b'moma_modalities = ["text", "image", 0x' + b"f" * 6000 + b"]\n",
    "hashes": b"[train]\nseq_len = 1 " + b"#" * 1_000_000,
    "stray-keys": b"batch_size = 1\nseq_len = 2\n" + b"[x]\n",
    "sections-not-tables": "".join(
        f"{name} = 1\n" for name in trainer("kempnerforge").schema.sections
    ).encode(),
    "sections-of-tables": "".join(
        f"[[{name}]]\n" for name in trainer("kempnerforge").schema.sections
    ).encode(),
}


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES)
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


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ("{a = ", "}"), ("[{a = ", "}]")]
)
def test_nesting_of_any_depth(opening, closing):
    """Also close to the depth at which the parser gives up."""
    ended = {
        depth: in_order(
            lint(
                "-",
                stdin=f"[train]\nmixed_precision = {opening * depth}1{closing * depth}"
                f"\nx = {opening * depth}{closing * depth}\n".encode(),
            )
        )
        for depth in range(1, 500, 1)
    }
    assert {end.code for end in ended.values()} == {1}


SECTIONS = {
    name: sorted(keys) for name, keys in trainer("kempnerforge").section_keys.items()
}
NUMBERS = [
    (name, key.base)
    for name, key in trainer("kempnerforge").schema.dotted_keys()
    if key.base in ("int", "float")
]
VALUES = [
    *("nan", "-nan", "inf", "-inf", "1e999", "1e308", "-1e308", "5e-324", "-0.0", "0"),
    *("-1", "1", "9223372036854775808", "1" * 300, "9" * 4300, "-" + "9" * 4300),
    *(DIGITS, f"'{DIGITS}'", f"0x{'f' * 100}", f"0x{'f' * 6000}", f"'0x{'f' * 99}'"),
    *("true", "false", "''", "' '", "'nan'", "'inf'", "'1e5'", "'\uff11'", "'1_000'"),
    *("1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "1979-05-27T07:32:00"),
    *("[]", "[1]", "[[]]", "[nan, nan]", "[inf, 0.5]", "[1, 2, 3]", "['a', 'a']"),
    *("{}", "{a = 1}", "[{}]", "[{}, {}]", "[1, {}]", "[{start_step = nan}]"),
    *("['text', 'image']", "['text', 'image', [1]]", "['text', 'image', 1979-05-27]"),
    *("{text = 1, image = nan}", "{text = 0, image = []}", "['text', 'image', nan]"),
    f"['text', 'image', 0x{'f' * 6000}]",
    f"[{{start_step = 0x{'f' * 6000}}}, {{start_step = 1}}]",
    "[{start_step = []}, {start_step = {}}]",
    "[{start_step = 1979-05-27}, {start_step = 1979-05-27T07:32:00Z}]",
    "[{start_step = 1, specs = []}, {start_step = '1', specs = 1}]",
    "[{path = 1}, {path = [], weight = nan}, {weight = 'x'}]",
    r'"\u001b[31m\u009b1m\u202e\u0000\u007f"',
    r'{"\u001b" = "\u001b"}',
    f"'{'x' * 10_000}'",
]
NAMES = [
    value if len(value) < 40 else f"{value[:30]}...{len(value)}" for value in VALUES
]


@pytest.mark.parametrize("value", VALUES, ids=NAMES)
def test_any_value_at_every_key_of_a_section(value):
    """All keys of a section, or of all sections, hold the same odd value."""
    texts = [
        f"[{section}]\n" + "".join(f"{key} = {value}\n" for key in keys)
        for section, keys in SECTIONS.items()
    ]
    lint_bytes("\n".join(texts).encode())
    for text in texts:
        in_order(lint("--trainer", "kempnerforge", "-", stdin=text.encode()))
    for arch in ("joint_decoder", "cross_attention", "mot", "moma"):
        keys = [key for key in SECTIONS["vlm"] if key != "arch"]
        vlm = "".join(f"{key} = {value}\n" for key in keys)
        text = f"[train]\n[vision_encoder]\nnum_tokens = 4\n[vlm]\narch = '{arch}'\n"
        in_order(lint("-", stdin=f"{text}{vlm}".encode()))


@pytest.mark.parametrize("value", VALUES, ids=NAMES)
def test_any_value_instead_of_a_section(value):
    for section in SECTIONS:
        text = f"{section} = {value}\n"
        in_order(lint("--trainer", "kempnerforge", "-", stdin=text.encode()))


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", DIGITS, f"0x{'f' * 6000}"])
@pytest.mark.parametrize("key", [name for name, _ in NUMBERS])
def test_odd_numbers_for_every_numeric_key(key, value):
    section, _, name = key.partition(".")
    table = {"vlm": VLM_CONFIG, "adapter": VLM_CONFIG, "video": VLM_CONFIG}
    text = table.get(section, CONFIG)
    lines = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
    place = lines.index(f"[{section}]") + 1 if f"[{section}]" in lines else len(lines)
    header = [] if f"[{section}]" in lines else [f"[{section}]"]
    lines[place:place] = [*header, f"{name} = {value}"]
    ended = in_order(lint("-", stdin="\n".join(lines).encode()))
    if value == DIGITS:
        assert "integer of more than 4300 digits" in ended.out


NASTY = {
    "escape": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "c1": "\x9b31m\x84\x85\x90",
    "direction": "\u202eabc\u2066def\u2069\u200f\u061c",
    "backspace": "abc\x08\x08\x08",
    "delete": "\x7f",
    "carriage-return": "abc\rdef",
    "line-separators": "a\u2028b\u2029c\x0b\x0c",
    "marks": "\ufeff\u200b\u200d",
    "nul": "\0",
    "combining": "a" + "\u0301" * 500,
    "wide": "漢字😀" * 100,
    "tab": "\ta\t",
    "long": "x" * 50_000,
    "markup": "{fault.value} {{}} %s `x` \\u001b \\",
}
PLACES = {
    "precision": '[train]\nmixed_precision = "{}"\n',
    "precision-in-quotes": "[train]\nmixed_precision = '{}'\n",
    "value-in-array": '[train]\nmixed_precision = ["{0}", {{ "{0}" = "{0}" }}]\n',
    "number": '[train]\nbatch_size = "{}"\n',
    "choice": '[train]\n[scheduler]\nname = "{}"\n',
    "key": '[train]\n"{}" = 1\n',
    "keys": '"{}" = 1\n"{}x" = 2\n[train]\n',
    "section": '[train]\n["{0}"]\nx = 1\n',
    "section-of-dots": '[train]\n["{0}"."{0}"]\nx = 1\n',
    "key-in-entry": '[train]\n[[data.datasets]]\n"{0}" = "{0}"\n',
    "entry": '[train]\n[data]\ndatasets = ["{}"]\n',
    "weights": '[train]\n[data]\nphases = [{{ dataset_weights = {{ "{}" = -1 }} }}]\n',
    "modalities": '[train]\n[vlm]\narch = "moma"\nmoma_modalities = ["{0}", "{0}"]\n',
    "experts": (
        '[train]\n[vlm]\narch = "moma"\nmoma_experts_per_modality = {{ "{}" = 1 }}\n'
    ),
    "experts-below": (
        '[train]\n[vlm]\narch = "moma"\nmoma_modalities = ["text", "image", "{0}"]\n'
        'moma_experts_per_modality = {{ text = 1, image = 1, "{0}" = 0 }}\n'
    ),
    "comment": "[train]\nbatch_size = 0 # {}\n",
    "comment-before": "# {}\n[train]\nbatch_size = 0\n",
    "directive": "# fp8tune: gpu={}\n[train]\n",
    "directive-word": "# fp8tune: {}\n[train]\n",
    "directive-size": "# fp8tune: world-size={}\n[train]\n",
    "error": "[train]\nx = {}\n",
    "error-after": '[train] "{}"\n',
    "error-in-string": '[train]\nx = "{}\n',
    "twice": '[train]\n"{0}" = 1\n"{0}" = 2\n',
    "table-twice": '["{0}"]\n["{0}"]\n',
    "nothing": "{}",
}


def escaped(text):
    return "".join(
        f"\\U{ord(c):08x}" if not c.isprintable() or c in '"\\' else c for c in text
    )


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_nothing_acts_on_the_terminal(place, text):
    lint_bytes(place.format(text, text).encode())
    lint_bytes(place.format(escaped(text), escaped(text)).encode())


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize(
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


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize("place", SETTINGS.values(), ids=SETTINGS)
def test_settings_that_act_on_the_terminal(place, text, folder):
    (folder / "a.toml").write_text("[train]\nbatch_size = 0\n")
    for index, form in enumerate((text, escaped(text))):
        inner = folder / str(index)
        inner.mkdir()
        (inner / "pyproject.toml").write_bytes(place.format(form).encode())
        (inner / "a.toml").write_text("[train]\nbatch_size = 0\n")
        lint_all(str(inner / "a.toml"))


@pytest.mark.parametrize(
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
    with soon():
        lint_all("a.toml")
        lint_all(".")


FILE_NAMES = {
    "newline": b"a\nb.toml",
    "escape": b"\x1b[31mred.toml",
    "not-utf-8": b"\xff\xfe.toml",
    "latin-1": b"caf\xe9.toml",
    "c1": b"\xc2\x9b31m.toml",
    "direction": "\u202elmot.toml".encode(),
    "carriage-return": b"a\rb.toml",
    "bell": b"\x07.toml",
    "line-separator": "\u2028.toml".encode(),
    "emoji": "😀👩\u200d💻.toml".encode(),
    "spaces": b"  .toml",
    "quotes": b"'\"`$(x).toml",
    "colons": b"a:1:2: error.toml",
    "long": b"x" * 250 + b".toml",
    "glob": b"[*?].toml",
    "percent": b"%s{}.toml",
}


@pytest.mark.parametrize("name", FILE_NAMES.values(), ids=FILE_NAMES)
def test_file_names(name, folder):
    path = os.fsdecode(name)
    Path(path).write_bytes(b"[train]\nbatch_size = 0\n")
    for ended in (lint_all(path), lint_all(".")):
        assert [end.code for end in ended] == [1, 1, 1]
        (found,) = json.loads(ended[2].out)["diagnostics"]
        assert found["path"] == well_formed(path)
        assert found["rule"] == "value-out-of-range"
    Path(path).write_bytes(b"\xff")
    assert [end.code for end in lint_all(path)] == [1, 1, 1]
    Path(path).unlink()
    assert [end.code for end in lint_all(path)] == [2, 2, 2]
    Path(path).mkdir()
    assert [end.code for end in lint_all(path)] == [0, 0, 0]
    (Path(path) / path).write_bytes(b"x = ?")
    (Path(path) / "pyproject.toml").write_bytes(b"[tool.fp8tune]\nx = 1")
    assert [end.code for end in lint_all(path)] == [2, 2, 2]


@pytest.mark.parametrize("name", FILE_NAMES.values(), ids=FILE_NAMES)
def test_file_names_of_stdin(name):
    data = b"[train]\nbatch_size = 0\n"
    ended = lint_all("--stdin-filename", os.fsdecode(name), "-", stdin=data)
    assert [end.code for end in ended] == [1, 1, 1]


def test_a_directory_named_like_a_config(folder):
    (folder / "x.toml").mkdir()
    assert [end.code for end in lint_all("x.toml")] == [0, 0, 0]
    assert [end.code for end in lint_all(".")] == [0, 0, 0]
    (folder / "x.toml" / "x.toml").write_text("[train]\nbatch_size = 0\n")
    assert [end.code for end in lint_all(".")] == [1, 1, 1]


def make_dangling():
    os.symlink("nowhere", "x.toml")


def make_loop():
    os.symlink("x.toml", "x.toml")


def make_ring():
    os.symlink("y.toml", "x.toml")
    os.symlink("x.toml", "y.toml")


def make_fifo():
    os.mkfifo("x.toml")


def make_socket():
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("x.toml")


def make_link_to_device():
    os.symlink("/dev/zero", "x.toml")


def make_link_to_memory():
    os.symlink("/proc/self/mem", "x.toml")


@pytest.mark.parametrize(
    "make",
    [
        make_dangling,
        make_loop,
        make_ring,
        make_fifo,
        make_socket,
        make_link_to_device,
        make_link_to_memory,
    ],
)
def test_what_is_no_file(make, folder, monkeypatch):
    make()
    with soon():
        named, found = lint_all("x.toml"), lint_all(".")
    assert [end.code for end in (*named, *found)] == [2] * 6
    assert named[0].err.startswith("fp8tune: x.toml: ")
    assert named[0].err.count("\n") == 1


@pytest.mark.parametrize(
    "path",
    [
        *("/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem", "/proc/self/fd/0"),
        *("", "/", "no/such.toml", "a.toml/b.toml", "x" * 300, "x/" * 3000, "~", "--"),
        "a/" * 1500 + "x.toml",
    ],
    ids=lambda path: path[:20] or "empty",
)
def test_odd_paths(path, folder):
    (folder / "a.toml").write_text("")
    if path == "/":
        folder = folder / "x"
        folder.mkdir()
        path = f"{folder}/"
    with soon():
        lint_all("--", path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("mode", [0, 0o222])
def test_unreadable_files_and_folders(mode, folder):
    (folder / "a").mkdir()
    for path in ("x.toml", "a/x.toml"):
        (folder / path).write_text("[train]\n")
    (folder / "x.toml").chmod(mode)
    (folder / "a").chmod(mode)
    try:
        assert [end.code for end in lint_all("x.toml")] == [2, 2, 2]
        assert [end.code for end in lint_all("a/x.toml")] == [2, 2, 2]
        lint_all("a")
    finally:
        (folder / "a").chmod(0o755)


def test_a_file_that_goes_away(folder, monkeypatch):
    """It is found in the folder, and gone when it is read."""
    for name in ("a.toml", "b.toml", "c.toml"):
        (folder / name).write_text("[train]\nbatch_size = 0\n")

    scan = os.scandir

    def scandir(path):
        (folder / "b.toml").touch()
        entries = list(scan(path))
        (folder / "b.toml").unlink()
        return entries

    monkeypatch.setattr(os, "scandir", scandir)
    ended = lint_all(".")
    assert [end.code for end in ended] == [2, 2, 2]
    assert ended[0].err == "fp8tune: b.toml: No such file or directory\n"
    assert ended[0].out.count("error[value-out-of-range]") == 2


def test_a_file_that_fails_while_it_is_read(folder, monkeypatch):
    (folder / "a.toml").write_text("[train]\n")

    real = os.stat

    def stat(path, **options):
        if str(path).endswith("a.toml"):
            raise OSError(5, "Input/output error\x1b[31m")
        return real(path, **options)

    monkeypatch.setattr(os, "stat", stat)
    ended = in_order(lint("a.toml"))
    assert ended == (
        2,
        "",
        "fp8tune: a.toml: Input/output error\\u001b[31m\n",
    )


@pytest.fixture
def deep_folder(folder):
    """Folders nested deeper than Python recurses, as long as a path may be."""
    path, made = str(folder), []
    while len(path) < 4000:
        path += "/a"
        os.mkdir(path)
        made.append(path)
    file = Path(path, "x.toml")
    file.write_text("[train]\nbatch_size = 0\n")
    yield file
    file.unlink()
    for path in reversed(made):
        os.rmdir(path)


MENDED = ("utf-8-bom", "all-bytes", "many-tables-and-train", "hashes", "stray-keys")


@pytest.mark.parametrize("option", ["--fix", "--unsafe-fixes"])
@pytest.mark.parametrize("name", MENDED)
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


def test_a_file_in_folders_nested_deeply(deep_folder):
    with soon():
        assert [end.code for end in lint_all(str(deep_folder))] == [1, 1, 1]


def test_folders_nested_deeply(deep_folder):
    with soon():
        assert [end.code for end in lint_all(".")] == [1, 1, 1]


def test_many_bad_files(folder, monkeypatch):
    """So many that several processes share them; the result is that of one."""
    bad = [
        b"[train]\nx = 1\n",
        b"\xff",
        b"[train]\nmixed_precision = '\x1b'",
        b'[train]\n"\\u001b" = "\\u009b"\n',
        b"",
        b"x" * (MAX_BYTES + 1),
        b"[train]\nx = " + b"[" * DEEP,
        CONFIG.replace("batch_size = 8", "batch_size = ?").encode(),
    ]
    for index in range(410):
        (folder / f"{index:03}.toml").write_bytes(bad[index % len(bad)])
    os.symlink("nowhere", "z.toml")
    with soon(60):
        shared = lint_all(".")
        monkeypatch.setattr("fp8tune.lint.run.MANY", 10**6)
        assert shared == lint_all(".")
    assert [end.code for end in shared] == [2, 2, 2]
    assert len(json.loads(shared[2].out)["diagnostics"]) >= 103


@EXAMPLES
@given(st.binary(max_size=300), st.sampled_from(FORMATS))
def test_random_bytes(data, output_format):
    in_order(lint("--output-format", output_format, "-", stdin=data), output_format)


@EXAMPLES
@given(st.text(max_size=200), st.sampled_from(FORMATS))
def test_random_text(text, output_format):
    data = text.encode("utf-8", "surrogatepass")
    in_order(lint("--output-format", output_format, "-", stdin=data), output_format)


@EXAMPLES
@given(
    st.text(
        st.sampled_from("[]{}=.,#\n\r \"'\\abtrain0179-+:eTZ_xu\x1b\x85é"), max_size=200
    )
)
def test_random_text_of_signs(text):
    in_order(lint("-", stdin=f"[train]\n{text}".encode()))


@EXAMPLES
@given(writer.documents(), st.sampled_from(FORMATS))
def test_random_documents(document, output_format):
    options = ("--output-format", output_format, "--trainer", "kempnerforge")
    in_order(lint(*options, "-", stdin=document[0].encode()), output_format)


KEYS = [(section, key) for section, keys in SECTIONS.items() for key in keys]


@EXAMPLES
@given(
    st.dictionaries(
        st.one_of(
            st.sampled_from(KEYS),
            st.tuples(st.sampled_from(sorted(SECTIONS)), writer.keys),
        ),
        writer.values,
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["", *SECTIONS]),
    st.randoms(use_true_random=False),
    st.sampled_from(FORMATS),
)
def test_random_values_at_random_keys(chosen, first, dice, output_format):
    table = {first: {}} if first else {}
    for (section, key), value in chosen.items():
        table.setdefault(section, {})[key] = value
    data = writer.Writer(dice).document(table).encode()
    ended = lint(
        *("--output-format", output_format, "--trainer", "kempnerforge"),
        *("--gpu", "h100", "--world-size", "16", "-"),
        stdin=data,
    )
    in_order(ended, output_format)


def mutated(text, dice):
    """A config with some bytes gone, doubled, added or swapped, or values replaced."""
    data = bytearray(text.encode())
    for _ in range(dice.randrange(1, 6)):
        start = dice.randrange(len(data))
        end = min(len(data), start + dice.choice([1, 1, 2, 5, 40]))
        act = dice.randrange(6)
        if act == 0:
            del data[start:end]
        elif act == 1:
            data[start:start] = data[start:end]
        elif act == 2:
            data[start:start] = dice.randbytes(dice.randrange(1, 4))
        elif act == 3:
            other = dice.randrange(len(data))
            data[start], data[other] = data[other], data[start]
        elif act == 4:
            data[start:start] = dice.choice(SIGNS)
        else:
            value = dice.choice(VALUES).encode()
            lines = bytes(data).split(b"\n")
            line = dice.randrange(len(lines))
            key, equals, _ = lines[line].partition(b"=")
            lines[line] = key + (equals or b"=") + value
            data = bytearray(b"\n".join(lines))
        data = data or bytearray(b"\n")
    return bytes(data)


SIGNS = [
    *(b"[", b"]", b"[[", b"{", b"}", b"=", b".", b",", b"#", b"\n", b"\r\n", b"\r"),
    *(b'"', b"'", b'"""', b"'''", b"\\", b"\\\n", b"\0", b"\x1b[31m", b"\xc2\x9b"),
    *(b"\xef\xbb\xbf", b"\xe2\x80\xae", b"-", b"0x", b"nan", b"1e9", b"[train]\n"),
]


@EXAMPLES
@given(
    st.sampled_from([CONFIG, VLM_CONFIG]),
    st.randoms(use_true_random=False),
    st.sampled_from(FORMATS),
)
def test_mutated_configs(text, dice, output_format):
    data = mutated(text, dice)
    in_order(lint("--output-format", output_format, "-", stdin=data), output_format)


def test_many_mutations():
    """A longer run with seeds of its own, to see that none of them hangs."""
    with soon(120):
        for seed in range(1500):
            data = mutated((CONFIG, VLM_CONFIG)[seed % 2], Random(seed))
            output_format = FORMATS[seed % 3]
            ended = lint("--output-format", output_format, "-", stdin=data)
            in_order(ended, output_format)


def shell(command, **variables):
    """Run a command line of the shell; ``$lint`` is ``fp8tune lint``."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPOSITORY),
        "lint": f"{sys.executable} -m fp8tune lint",
        **variables,
    }
    done = subprocess.run(
        ["/bin/sh", "-c", command], env=environment, capture_output=True, timeout=20
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}], ids=str)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("$lint ok.toml", 0),
        ("$lint bad.toml", 1),
        ("$lint - < bad.toml", 1),
        ("$lint utf.toml", 1),
        ("$lint - < utf.toml", 1),
        ("$lint --output-format json - < utf.toml", 1),
        ("$lint - < /dev/null", 0),
        ("$lint - < /dev/zero", 2),
        ("yes '[train]' | $lint -", 2),
        ("yes '[train]' | head -1000 | $lint -", 1),
        ("mkfifo f.toml; $lint f.toml", 2),
        ("$lint nope.toml", 2),
        ("$lint $(printf 'a\\033[31m\\n\\377.toml')", 2),
        ("n=$(printf '\\377\\033.toml'); cp bad.toml $n; $lint $n", 1),
        ("$lint - <&-", 2),
        ("$lint - 0> written", 2),
        ("$lint bad.toml >&-", None),
        ("$lint --output-format json bad.toml >&-", None),
        ("$lint nope.toml 2>&-", 2),
        ("$lint bad.toml > /dev/full", 2),
        ("$lint --output-format concise bad.toml > /dev/full", 2),
        ("$lint --output-format json bad.toml > /dev/full", 2),
        ("$lint nope.toml 2> /dev/full", 2),
        ("$lint --nope 2> /dev/full", 2),
        ("mkfifo p; true < p & $lint bad.toml > p", 2),
        ("mkfifo p; true < p & $lint many.toml > p", 2),
        ("mkfifo p; head -c 1 < p & $lint many.toml > p", None),  # a pipe may hold it
        ("mkdir p; mkfifo p/pyproject.toml; cp bad.toml p; $lint p/bad.toml", 1),
        ("ulimit -n 16; $lint bad.toml", 1),
    ],
)
def test_in_a_shell(command, code, variables, folder):
    files = {
        "ok.toml": CONFIG.encode(),
        "bad.toml": b"[train]\nbatch_size = 0\nmixed_precision = '\xc2\x9b\xc3\xa4'\n",
        "utf.toml": b"[train]\nbatch_size = '\xff'\n",
        "many.toml": b"[train]\n" + b"".join(b"k%d = 1\n" % i for i in range(20_000)),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    ended = shell(command, **variables)
    assert not re.findall("Traceback|Exception ignored", ended.err)
    assert not ACTS.findall(ended.out + ended.err)
    assert ended.code in ((0, 1, 2) if code is None else (code,))


@pytest.mark.parametrize(
    "variables",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "utf-8:strict"},
        {"PYTHONWARNINGS": "error"},
        {"PYTHONINTMAXSTRDIGITS": "640"},
        {"PYTHONDEVMODE": "1"},
    ],
    ids=str,
)
def test_in_other_surroundings(variables, folder):
    name = os.fsdecode(b"\xff\xe4.toml")
    text = f"[train]\nbatch_size = {'9' * 1000}\nmixed_precision = 'ä😀'\n"
    Path(name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "fp8tune", "lint", name, "no\ufffd.toml"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        timeout=30,
    )
    assert b"Traceback" not in done.stderr
    assert b"Warning" not in done.stderr
    assert done.returncode == 2


def test_colour_is_all_that_acts(folder, monkeypatch):
    """With colour only the sequences of our own are left."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    for place in PLACES.values():
        for text in NASTY.values():
            data = place.format(escaped(text), escaped(text)).encode()
            ended = lint("-", stdin=data)
            in_order(ended._replace(out=re.sub(r"\x1b\[[0-9;]*m", "", ended.out)))


def test_nothing_is_left_behind(folder):
    """No run writes a file."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        Path(name, "a.toml").write_bytes(b"\xff")
        lint_all(name)
        assert [entry.name for entry in os.scandir(name)] == ["a.toml"]
