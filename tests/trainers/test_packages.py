"""The releases of packages that files beside a config pin."""

import pytest

from fp8tune.trainers.packages import pinned
from tests.each import each


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
        return pinned(str(inner)).get("transformers", "")

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
        ({"requirements.txt": "transformers<=4.57.1"}, "4.57.1"),
        ({"requirements.txt": "transformers<5.3"}, "5.2"),
        ({"requirements.txt": "transformers<5.3.1"}, "5.3"),
        ({"requirements.txt": "transformers>=4.55\ntransformers-kt==5.0"}, ""),
        ({"uv.lock": LOCK.format(name="transformers")}, "5.6.0"),
        (
            {"pylock.toml": LOCK.format(name="transformers").replace("age", "ages")},
            "5.6.0",
        ),
        ({"poetry.lock": LOCK.format(name="torch")}, ""),
        ({"uv.lock": "[[package", "requirements.txt": "transformers==4.56"}, "4.56"),
        ({"pyproject.toml": "[project]\ndependencies = ['transformers<5']"}, "4"),
        ({"pyproject.toml": "project = 1"}, ""),
    ],
)
def test_the_nearest_files_say_it(release, files, expected):
    assert release(files) == expected
