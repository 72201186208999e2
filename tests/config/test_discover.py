"""Which files a path means, what is read of them, and path patterns."""

import os

import pytest

from fp8tune.config.discover import CannotRead, Found, discover, matches, read
from fp8tune.formats.document import MAX_BYTES
from tests.each import each


def test_discover(project):
    root = project(
        dict.fromkeys(
            [
                "b.toml",
                "a.toml",
                "a.txt",
                "sub/c.toml",
                "sub/deep/d.toml",
                ".hidden/e.toml",
                "venv/f.toml",
                "node_modules/g.toml",
                "__pycache__/h.toml",
                "lib/site-packages/i.toml",
                ".dot.toml",
                "UPPER.TOML",
            ],
            "",
        )
    )
    (root / "link").symlink_to(root / "sub")
    (root / "alias.toml").symlink_to(root / "a.toml")
    (root / "dangling.toml").symlink_to(root / "gone.toml")
    found = list(discover((".", "a.txt", "-", "nosuch.toml")))
    assert found == [
        Found(".dot.toml", False),
        Found("a.toml", False),
        Found("b.toml", False),
        Found("sub/c.toml", False),
        Found("sub/deep/d.toml", False),
        Found("a.txt", True),
        Found("-", True),
        Found("nosuch.toml", True),
    ]


@each(
    ("paths", "files"),
    [
        (("link.toml", "a.toml"), ["link.toml"]),
        (("a.toml", "link.toml"), ["a.toml"]),
        ((".", "link.toml"), ["sub/b.toml", "link.toml"]),
        (("sub", "folder"), ["sub/b.toml"]),
        (("folder", "sub"), ["folder/b.toml"]),
    ],
)
def test_a_file_that_a_link_leads_to_is_checked_once(project, paths, files):
    root = project({"a.toml": "", "sub/b.toml": ""})
    for link, target in (("link.toml", "a.toml"), ("folder", "sub")):
        if not (root / link).exists():
            (root / link).symlink_to(root / target)
    assert [found.path for found in discover(paths)] == files


def test_read_stops_one_byte_past_the_limit(project):
    project({"a.toml": "#" * (MAX_BYTES + 100)})
    assert len(read("a.toml")) == MAX_BYTES + 1


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nosuch.toml", "nosuch.toml: No such file or directory"),
        ("fifo", "fifo: not a regular file; pipe it in and name it -"),
        ("/dev/null", "/dev/null: not a regular file; pipe it in and name it -"),
        ("a\0b.toml", r"'a\x00b.toml': not a file name"),
        ("x" * 300, f"{'x' * 300}: File name too long"),
        ("a.toml/b.toml", "a.toml/b.toml: Not a directory"),
    ],
)
def test_cannot_read(project, path, said):
    root = project({"a.toml": ""})
    os.mkfifo(root / "fifo")
    with pytest.raises(CannotRead) as error:
        read(path)
    assert str(error.value) == said


@each(
    ("path", "pattern", "hit"),
    [
        ("a.toml", "a.toml", True),
        ("sub/a.toml", "*.toml", True),
        ("sub/a.toml", "sub", True),
        ("sub/a.toml", "sub/*", True),
        ("sub/deep/a.toml", "sub/deep", True),
        ("sub/deep/a.toml", "sub/*.toml", True),
        ("sub/a.toml", "ub", False),
        ("sub/a.toml", "other/*", False),
        ("a.toml", "", False),
        ("../a.toml", "a.toml", True),
    ],
)
def test_matches(project, path, pattern, hit):
    root = project()
    assert matches(path, str(root), (pattern,)) is hit
    assert matches(str(root / path), str(root), ("zzz", pattern)) is hit


def test_a_file_that_only_names_fp8tune_is_no_config(project, fp8tune):
    """A hook's name is no comment for fp8tune; reading it would need PyYAML."""
    hooks = "repos:\n- repo: https://example.org\n  hooks: [{id: fp8tune}]\n"
    project({"hooks.yaml": hooks, "run.yaml": "# fp8tune: trainer=axolotl\nx: 1\n"})
    ended = fp8tune("lint")
    assert "hooks.yaml" not in ended.err
    assert "run.yaml" in ended.out
