"""Names, folders and things that are no files."""

import json
import os
import socket
from pathlib import Path

import pytest

from fp8tune.formats.document import MAX_BYTES
from fp8tune.lint.formats.address import well_formed
from tests.formats.toml.clock import soon
from tests.lint.bad_input.cases import CONFIG, DEEP
from tests.lint.bad_input.running import lint_all

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


def make_ring():
    os.symlink("y.toml", "x.toml")
    os.symlink("x.toml", "y.toml")


def make_socket():
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("x.toml")


@pytest.mark.parametrize(
    ("make", "in_folder"),
    [
        (lambda: os.mkfifo("x.toml"), 2),
        (make_socket, 2),
        (lambda: os.symlink("/dev/zero", "x.toml"), 2),
        (lambda: os.symlink("/proc/self/mem", "x.toml"), 2),
        # repositories have links to nothing; a folder that holds one can be linted
        (lambda: os.symlink("nowhere", "x.toml"), 0),
        (lambda: os.symlink("x.toml", "x.toml"), 0),
        (make_ring, 0),
    ],
    ids=["fifo", "socket", "device", "memory", "dangling", "loop", "ring"],
)
def test_what_is_no_file(make, in_folder, folder):
    make()
    with soon():
        named, found = lint_all("x.toml"), lint_all(".")
    assert [end.code for end in (*named, *found)] == [2] * 3 + [in_folder] * 3
    assert named[0].err.startswith("fp8tune: x.toml: ")
    assert named[0].err.count("\n") == 1


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
    os.mkfifo("z.toml")
    with soon(60):
        shared = lint_all(".")
        monkeypatch.setattr("fp8tune.lint.run.SHARE", 10**6)
        assert shared == lint_all(".")
    assert [end.code for end in shared] == [2, 2, 2]
    assert len(json.loads(shared[2].out)["diagnostics"]) >= 103
