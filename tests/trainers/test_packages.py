"""The releases of packages that files beside a config pin."""

import pytest

from fp8tune.trainers.packages import installed, pinned
from tests.each import each
from tests.metadata import write_metadata


@pytest.fixture
def release(tmp_path):
    """The release of transformers that files of a folder pin."""

    def look(files):
        inner = tmp_path / "configs" / "sft"
        inner.mkdir(parents=True, exist_ok=True)
        for old in tmp_path.glob("*.*"):
            old.unlink()
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        pinned.cache_clear()
        found = pinned(str(inner)).get("transformers")
        return found.version if found else ""

    return look


LOCK = """
[[package]]
name = "{name}"
version = "5.6.0"
"""


@each(
    ("files", "expected"),
    [
        ({}, ""),
        ({"requirements.txt": "torch\ntransformers==4.57.6  # as tested"}, "4.57.6"),
        ({"requirements-train.txt": "Transformers[torch] >=4.55, <5"}, "4"),
        ({"requirements.txt": "transformers<5.3"}, "5.2"),
        ({"requirements.txt": "transformers<5.3.1"}, "5.3"),
        ({"uv.lock": LOCK.format(name="transformers")}, "5.6.0"),
        (
            {"pylock.toml": LOCK.format(name="transformers").replace("age", "ages")},
            "5.6.0",
        ),
        ({"uv.lock": "[[package", "requirements.txt": "transformers==4.56"}, "4.56"),
        ({"pyproject.toml": "[project]\ndependencies = ['transformers<5']"}, "4"),
        (
            {"requirements.txt": "-e git+https://x.org/a/transformers@v5.2.0#egg=t"},
            "5.2.0",
        ),
        ({"requirements.txt": "transformers @ file:///home/me/transformers"}, ""),
    ],
)
def test_the_nearest_files_say_it(release, files, expected):
    assert release(files) == expected


TORCHAO = b"""\
distributed_type: MULTI_GPU
mixed_precision: fp8
num_processes: 8
fp8_config:
  backend: AO
"""
BY_KEYS = "1.15.0, by the keys; --trainer accelerate==VERSION names another"
NAMED = "# fp8tune: trainer=accelerate==1.9.0\n"


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A virtual environment with the metadata of packages."""

    def make(packages):
        place = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
        write_metadata(place, packages)
        monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))

    return make


def test_what_is_installed_is_read_without_importing_it(environment):
    environment({"nemo-automodel": "0.4.1", "Transformers": "5.6.0", "rich": "15.0"})
    assert installed() == {"nemo_automodel": "0.4.1", "transformers": "5.6.0"}


@each(
    ("files", "arguments", "said"),
    [
        ({}, (), BY_KEYS),
        ({}, ("--trainer", "accelerate"), BY_KEYS),
        ({"requirements.txt": "accelerate==1.13.0"}, (), "1.13.0 (requirements.txt)"),
        (
            {"uv.lock": '[[package]]\nname = "accelerate"\nversion = "1.12.3"\n'},
            (),
            "1.12.0 (uv.lock has 1.12.3, which fp8tune does not know)",
        ),
        (
            {"requirements.txt": "accelerate==1.20"},
            (),
            "1.15.0 (requirements.txt has 1.20, which fp8tune does not know: keys that",
        ),
        ({}, ("--installed",), "1.10.1 (installed)"),
        (
            {"requirements.txt": "accelerate==1.13.0"},
            ("--installed",),
            "1.13.0 (requirements.txt)",
        ),
        (
            {"requirements.txt": "accelerate==1.13.0"},
            ("--trainer", "accelerate==1.11.0"),
            "",
        ),
        ({"requirements.txt": "accelerate==1.13.0", "a.yaml": NAMED}, (), ""),
    ],
)
def test_which_version_a_config_is_read_as(
    tmp_path, monkeypatch, fp8tune, environment, files, arguments, said
):
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    if not (tmp_path / "venv").exists():
        environment({"accelerate": "1.10.1"})
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "a.yaml").write_bytes(files.get("a.yaml", "").encode() + TORCHAO)
    out, err = fp8tune("lint", "a.yaml", *arguments)[1:]
    line = [each for each in (out + err).splitlines() if "read as" in each]
    assert " ".join(line).startswith(
        f"1 file read as Accelerate {said}" if said else ""
    )
    assert bool(line) == bool(said)
