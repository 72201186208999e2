"""Patches: what `patch -p0` makes of them is the new file, whatever its name."""

import shutil
import subprocess

import pytest

from fp8tune.formats.edits import unified_diff
from tests.each import each


def test_without_a_newline_at_the_end():
    assert unified_diff("a.toml", b"a = 1", b"a = 2\n") == (
        "--- a.toml\n+++ a.toml\n@@ -1 +1 @@\n"
        "-a = 1\n\\ No newline at end of file\n+a = 2\n"
    )


NAMES = (
    "a.toml",
    "folder/a b.toml",
    "ä 漢.toml",
    'say "x".toml',
    "back\\slash.toml",
    "tab\t.toml",
    "new\n--- a.toml\n+++ a.toml\nline.toml",
    "bell\a.toml",
)
EDITS = (
    (b"a = 1\r\nb = 2\r\nc = 3", b"a = 1\r\nb = 3\r\nc = 3"),
    (b"\xef\xbb\xbfa = 1\n", b"a = 1\n"),
    (b"a = 1", b"a = 1\nb = 2\n"),
    ("# \x0c \u2028 é\na = 1\n".encode(), "# \x0c \u2028 é\na = 2\n".encode()),
)


@pytest.mark.skipif(not shutil.which("patch"), reason="no patch here")
@each(
    ("name", "before", "after"),
    [(name, b"a = 1\nb = 2\n", b"a = 1\nb = 3\n") for name in NAMES]
    + [("a.toml", *edit) for edit in EDITS],
)
def test_patch_applies(tmp_path, name, before, after):
    (tmp_path / "a.toml").write_bytes(b"untouched\n")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(before)
    subprocess.run(
        ["patch", "-p0", "--quiet"],
        cwd=tmp_path,
        input=unified_diff(name, before, after).encode(),
        check=True,
    )
    assert path.read_bytes() == after
    if path.name != "a.toml":
        assert (tmp_path / "a.toml").read_bytes() == b"untouched\n"
