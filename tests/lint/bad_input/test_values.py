"""Odd values at every key."""

from fp8tune.trainers.trainer import trainer
from tests.each import each
from tests.lint.bad_input.cases import CONFIG, DIGITS, SECTIONS, VALUES, VLM_CONFIG
from tests.lint.bad_input.running import in_order, lint, lint_bytes

NUMBERS = [
    (name, key.base)
    for name, key in trainer("kempnerforge").schema.dotted_keys()
    if key.base in ("int", "float")
]
NAMES = [
    value if len(value) < 40 else f"{value[:30]}...{len(value)}" for value in VALUES
]


@each("value", VALUES, ids=NAMES)
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


@each("value", VALUES, ids=NAMES)
def test_any_value_instead_of_a_section(value):
    for section in SECTIONS:
        text = f"{section} = {value}\n"
        in_order(lint("--trainer", "kempnerforge", "-", stdin=text.encode()))


@each("value", ["nan", "inf", "-inf", DIGITS, f"0x{'f' * 6000}"])
@each("key", [name for name, _ in NUMBERS])
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
