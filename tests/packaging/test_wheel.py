import zipfile
from pathlib import Path

import pytest

from fp8tune.lint import index
from fp8tune.lint.builtin import rule_files
from fp8tune.lint.rules import CATEGORIES

from .conftest import environment_with, execute, must


@pytest.fixture(scope="session")
def names(wheel):
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """Programs of an environment with the wheel."""
    return environment_with(tmp_path_factory.mktemp("installed"), wheel)


@pytest.fixture(scope="session")
def editable(repository, tmp_path_factory):
    """Programs of an environment where the checkout itself is installed."""
    return environment_with(tmp_path_factory.mktemp("editable"), "-e", repository)


def test_every_rule_is_in_the_wheel(names, repository):
    rules = repository / "rules"
    ours = {
        f"fp8tune/{path.relative_to(repository).as_posix()}"
        for path in rules.rglob("*.toml")
    }
    assert {name for name in names if name.startswith("fp8tune/rules/")} == ours
    causes = {name for name in ours if name.startswith("fp8tune/rules/run/")}
    assert len(ours - causes) == len(list(rule_files(str(rules))))
    assert len(causes) == len(list((rules / "run").iterdir()))
    assert any(name.startswith("fp8tune/rules/rejected/") for name in names)


@pytest.mark.parametrize(
    "name",
    [
        "fp8tune/py.typed",
        "fp8tune/facts/gpus.toml",
        "fp8tune/facts/fp8_gemm_h100.csv",
        "fp8tune/report/templates/report.css",
        "fp8tune/report/templates/report.html",
        "fp8tune/trainers/kempnerforge/schema.toml",
    ],
)
def test_data_is_in_the_wheel(names, name):
    assert name in names


def test_nothing_else_is_in_the_wheel(names, repository):
    modules = {
        path.relative_to(repository).as_posix()
        for path in (repository / "fp8tune").rglob("*.py")
    }
    inside = {name for name in names if ".dist-info/" not in name}
    written = {f"{name.replace('.', '/')}.py" for name, _ in index.sources()}
    modules = modules - {"fp8tune/build_hook.py"} | written
    assert {name for name in inside if name.endswith(".py")} == modules
    assert {name.split("/")[0] for name in inside} == {"fp8tune"}
    kinds = {name.rpartition(".")[2] for name in inside}
    assert kinds == {"py", "toml", "csv", "html", "css", "js", "typed"}


def test_metadata(wheel, names):
    (record,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    text = zipfile.ZipFile(wheel).read(record).decode()
    needs = [
        line
        for line in text.splitlines()
        if line.startswith("Requires-Dist:") and "extra ==" not in line
    ]
    assert needs == ["Requires-Dist: click>=8.2", "Requires-Dist: tomlkit>=0.13"]
    assert any(name.endswith("/licenses/LICENSE") for name in names)


@pytest.mark.parametrize("kind", ["installed", "editable"])
class TestInstalled:
    @pytest.fixture
    def programs(self, kind, request):
        return request.getfixturevalue(kind)

    def test_bad(self, programs, configs):
        command = (programs / "fp8tune", "lint", "--output-format=concise")
        ended = execute(*command, "bad.toml", folder=configs)
        assert ended.code == 1
        assert "bad.toml:2:7: error[heads-do-not-divide-hidden-size]" in ended.out
        assert "bad.toml:10:6: error[value-out-of-range]" in ended.out

    def test_bad_json(self, programs, configs):
        """Rules of trainers that read no TOML have a module of their own."""
        text = '{"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2}'
        (configs / "ds.json").write_text(text)
        command = (programs / "fp8tune", "lint", "--output-format=concise")
        ended = execute(*command, "bad.toml", "ds.json", folder=configs)
        assert "bad.toml:2:7: error[heads-do-not-divide-hidden-size]" in ended.out
        assert "ds.json:1:22: error[deepspeed-batch-sizes]" in ended.out

    def test_page(self, programs, configs):
        """What the index leaves out is read from the rule's file."""
        out = must(programs / "fp8tune", "explain", "FP8101", folder=configs)
        assert "Why" in out
        assert "Examples" in out or "[train]" in out

    def test_module(self, programs, configs):
        command = (programs / "python", "-m", "fp8tune", "lint", "bad.toml")
        assert execute(*command, folder=configs).code == 1

    def test_rules(self, programs, configs, repository):
        out = must(programs / "fp8tune", "rules", folder=configs)
        heads = [line for line in out.splitlines() if line.startswith("FP8")]
        assert len(heads) == len(list(rule_files(str(repository / "rules"))))
        others = [line for line in out.splitlines() if line not in heads]
        assert all(line.startswith(" ") for line in others)  # of long summaries

    def test_needs_no_torch(self, programs, configs):
        code = "import importlib.util as u; print(u.find_spec('torch'))"
        assert must(programs / "python", "-c", code, folder=configs) == "None\n"


def test_wheel_carries_its_own_rules(installed, configs):
    code = "from fp8tune.lint.builtin import builtin_folder as f; print(f())"
    folder = Path(must(installed / "python", "-c", code, folder=configs).strip())
    assert folder.is_relative_to(installed.parent)
    assert {path.name for path in folder.iterdir()} <= {*CATEGORIES, "run"}
