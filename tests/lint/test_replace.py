"""A file with new bytes: its rights stay, and it survives what fails."""

import os
import resource
import stat
import tempfile
from pathlib import Path

import pytest

from fp8tune.lint.rewrite import Changed, replace

NOBODY = 65534


@pytest.fixture
def file(tmp_path):
    """A file with some bytes, alone in a folder."""
    path = tmp_path / "folder" / "a.toml"
    path.parent.mkdir()
    path.write_bytes(b"old")
    return path


def alone(path):
    """Whether no temporary file was left behind."""
    return [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", [0o640, 0o444, 0o600, 0o755])
def test_the_mode_stays(file, mode):
    file.chmod(mode)
    if os.access(file, os.W_OK):
        replace(str(file), b"old", b"new")
        assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert alone(file)


def test_a_link_stays_a_link(file, tmp_path):
    link = tmp_path / "link.toml"
    link.symlink_to("folder/a.toml")
    replace(str(link), b"old", b"new")
    assert link.is_symlink()
    assert (file.read_bytes(), file.is_symlink()) == (b"new", False)
    assert alone(file)


def test_another_hard_link_keeps_the_old_bytes(file, tmp_path):
    os.link(file, tmp_path / "other.toml")
    replace(str(file), b"old", b"new")
    assert file.read_bytes() == b"new"
    assert (tmp_path / "other.toml").read_bytes() == b"old"


@pytest.mark.parametrize("now", [b"", b"other", b"older"])
def test_a_file_that_changed_in_between_is_left_alone(file, now):
    file.write_bytes(now)
    with pytest.raises(Changed):
        replace(str(file), b"old", b"new")
    assert (file.read_bytes(), alone(file)) == (now, True)


@pytest.mark.parametrize("call", ["replace", "fsync", "utime"])
@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt()])
def test_a_file_survives_what_fails(file, monkeypatch, call, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        replace(str(file), b"old", b"new")
    monkeypatch.undo()
    assert (file.read_bytes(), alone(file)) == (b"old", True)


def test_a_file_survives_a_write_that_fails(file):
    """As on a full disk: the kernel takes no more than two bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            replace(str(file), b"old", b"new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (file.read_bytes(), alone(file)) == (b"old", True)


@pytest.fixture
def someone():
    """A folder of somebody who is not root, whose rights this process has."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.toml").write_bytes(b"old")
        if root:
            for path in (folder, folder / "a.toml"):
                os.chown(path, NOBODY, NOBODY)
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        yield folder
        folder.chmod(0o700)
        if root:
            os.seteuid(0)
            os.setegid(0)


@pytest.mark.parametrize(("what", "mode"), [("a.toml", 0o444), (".", 0o555)])
def test_read_only_files_and_folders_are_respected(someone, what, mode):
    (someone / what).chmod(mode)
    with pytest.raises(PermissionError):
        replace(str(someone / "a.toml"), b"old", b"new")
    assert [path.name for path in someone.iterdir()] == ["a.toml"]
    assert (someone / "a.toml").read_bytes() == b"old"


def test_rights_of_a_group_that_cannot_be_kept_go_to_no_other(file, monkeypatch):
    file.chmod(0o664)

    def refused(path, owner, group):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refused)
    replace(str(file), b"old", b"new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o604


def test_the_group_stays_where_the_owner_cannot(file, monkeypatch):
    asked = []

    def only_groups(path, owner, group):
        asked.append(owner)
        if owner != -1:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", only_groups)
    file.chmod(0o664)
    replace(str(file), b"old", b"new")
    assert asked == [file.stat().st_uid, -1]
    assert stat.S_IMODE(file.stat().st_mode) == 0o664
