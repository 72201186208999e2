"""Odd values at every key."""

from tests.each import each
from tests.lint.bad_input.cases import SECTIONS, VALUES
from tests.lint.bad_input.running import in_order, lint, lint_bytes

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
