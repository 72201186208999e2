"""A rule of a user as a pack of its own, and what is said of a bad one."""

import pytest

from fp8tune.lint.packs import read_pack
from fp8tune.lint.rules import BadRule

HEAD = """\
name = "my-rule"
code = "ME301"
summary = "A rule"
severity = "warning"
confidence = "high"
since = "1.0"
"""
TAIL = """\
references = ["https://example.org/evidence"]
[[at]]
key = "tp"
label = "here"
"""
GOOD = HEAD + "when = 'tp > 1'\nmessage = \"tp is {tp}\"\n" + TAIL


def reason(tmp_path, text, name="my-rule.toml", category="silent"):
    """The error for a pack of one rule, without the path before the file name."""
    (tmp_path / category).mkdir(exist_ok=True)
    path = tmp_path / category / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadRule) as error:
        read_pack(str(tmp_path))
    said = str(error.value)
    prefix = f"{path}"
    assert said.startswith(prefix)
    assert "\n" not in said
    return said.removeprefix(prefix)
