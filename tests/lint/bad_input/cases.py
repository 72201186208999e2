"""What lint is given: configs, bytes, values, and text that acts on terminals."""

from fp8tune.trainers.trainer import trainer
from tests.sample import LLAMA_8B

HEAD = """\
# A config that KempnerForge takes.
# fp8tune: gpu=h100 world-size=16

"""
REST = """\
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
tokenizer_path = "/data/tokenizer"
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
async_mode = "disabled"
"""
CONFIG = HEAD + LLAMA_8B + REST
DEEP = 20_000
MANY = 5_000
DIGITS = "1" * 6000
BYTES = {
    "empty": b"",
    "nul": b"\0",
    "invalid-utf-8": b"[train]\nmixed_precision = '\xff\xfe'\n",
    "utf-16": CONFIG.encode("utf-16"),
    "utf-8-bom": CONFIG.encode("utf-8-sig"),
    "surrogates": b"[train]\nx = '\xed\xa0\x80'\n",
    "overlong": b"[train]\nx = '\xc0\x80'\n",
    "carriage-returns-alone": CONFIG.replace("\n", "\r").encode(),
    "carriage-returns": CONFIG.replace("\n", "\r\n").encode(),
    "all-bytes": bytes(range(256)) * 50,
    "one-line-of-3-mb": b"#" * 3_000_000,
    "one-value-of-1-mb": b"[train]\nmixed_precision = '" + b"x" * 1_000_000 + b"'\n",
    "one-key-of-1-mb": b"[train]\n" + b"x" * 1_000_000 + b" = 1\n",
    "one-section-of-1-mb": b"[train]\n[" + b"x" * 1_000_000 + b"]\n",
    "one-error-in-1-mb": b"x = '" + b"\t" * 1_000_000 + b"\n",
    "deep-array": b"[train]\nx = " + b"[" * DEEP,
    "deep-table": b"[train]\nx = " + b"{a=" * DEEP,
    "deep-header": b"[" + b"train." * DEEP + b"x]\n",
    "deep-key": b"[train]\n" + b"x." * DEEP + b"x = 1\n",
    "deep-key-of-escaped-quotes": b"[train]\nx" + rb'."\""' * 100_000 + b" = 1\n",
    "many-tables": "".join(f"[t{i}]\na = {i}\n" for i in range(DEEP)).encode(),
    "many-tables-in-train": "".join(f"[train.t{i}]\n" for i in range(MANY)).encode(),
    "many-keys": b"[train]\n" + "".join(f"k{i} = 1\n" for i in range(MANY)).encode(),
    "many-keys-on-one-line": f"train = {{{'k%d = 1, ' * 5000 % tuple(range(5000))}"
    "k = 1}".encode(),
    "many-datasets": b"[[data.datasets]]\n" * MANY,
    "many-phases": b"[data]\nphases = [" + b"1," * MANY + b"]\n",
    "many-directives": b"# fp8tune: gpu=h100\n" * 50_000 + b"[train]\n",
    "many-words": b"# fp8tune:" + b" gpu" * 250_000 + b"\n[train]\n",
    "modality-of-6000-digits": b'[train]\n[vlm]\narch = "moma"\n'
    b'moma_modalities = ["text", "image", 0x' + b"f" * 6000 + b"]\n",
    "phases-of-6000-digits": b"[[data.phases]]\nstart_step = 0x"
    + b"f" * 6000
    + b"\n[[data.phases]]\nstart_step = 1\n",
    "stray-keys": b"batch_size = 1\nseq_len = 2\n" + b"[x]\n",
    "sections-not-tables": "".join(
        f"{name} = 1\n" for name in trainer("kempnerforge").schema.sections
    ).encode(),
    "sections-of-tables": "".join(
        f"[[{name}]]\n" for name in trainer("kempnerforge").schema.sections
    ).encode(),
}
SECTIONS = {
    name: sorted(keys) for name, keys in trainer("kempnerforge").section_keys.items()
}
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
    "value-in-array": '[train]\nmixed_precision = ["{0}", {{ "{0}" = "{0}" }}]\n',
    "number": '[train]\nbatch_size = "{}"\n',
    "key": '[train]\n"{}" = 1\n',
    "section": '[train]\n["{0}"]\nx = 1\n',
    "key-in-entry": '[train]\n[[data.datasets]]\n"{0}" = "{0}"\n',
    "weights": '[train]\n[data]\nphases = [{{ dataset_weights = {{ "{}" = -1 }} }}]\n',
    "modalities": '[train]\n[vlm]\narch = "moma"\nmoma_modalities = ["{0}", "{0}"]\n',
    "experts-below": (
        '[train]\n[vlm]\narch = "moma"\nmoma_modalities = ["text", "image", "{0}"]\n'
        'moma_experts_per_modality = {{ text = 1, image = 1, "{0}" = 0 }}\n'
    ),
    "comment": "[train]\nbatch_size = 0 # {}\n",
    "directive": "# fp8tune: gpu={}\n[train]\n",
    "directive-word": "# fp8tune: {}\n[train]\n",
    "error": "[train]\nx = {}\n",
    "error-in-string": '[train]\nx = "{}\n',
    "twice": '[train]\n"{0}" = 1\n"{0}" = 2\n',
    "nothing": "{}",
}


def escaped(text):
    return "".join(
        f"\\U{ord(c):08x}" if not c.isprintable() or c in '"\\' else c for c in text
    )
