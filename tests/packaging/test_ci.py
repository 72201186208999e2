"""The action for GitHub and the snippets of the guide, as their runners run them."""

import json
import re
from pathlib import Path

import pytest
import yaml

from .conftest import execute, must
from .test_precommit import commit, git

LINE = "| error | heads-do-not-divide-hidden-size | {path}:2:7 | "


@pytest.fixture(scope="session")
def action(repository):
    return yaml.safe_load((repository / "action.yml").read_text())


@pytest.fixture(scope="session")
def temporary(tmp_path_factory):
    """RUNNER_TEMP of one job, in which the action has its environment."""
    return tmp_path_factory.mktemp("runner")


@pytest.fixture
def run_action(action, repository, temporary, tmp_path):
    """Run the steps of the action in a folder; its code, log, outputs and summary."""

    def run(folder, env=None, **inputs):
        (step,) = action["runs"]["steps"]
        values = {name: given["default"] for name, given in action["inputs"].items()}
        values |= inputs
        given = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: values[m[1]], text)
            for name, text in step["env"].items()
        }
        output, summary = tmp_path / "output", tmp_path / "summary"
        for path in (output, summary):
            path.write_text("")
        given |= {
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(repository),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_WORKSPACE": str(folder),
            "RUNNER_TEMP": str(temporary),
        }
        lines = step["run"].splitlines()
        if (temporary / "fp8tune").exists():  # installed by the test before
            lines = lines[-1:]
        bash = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
        ended = execute(*bash, "\n".join(lines), folder=folder, **given, **(env or {}))
        outputs = dict(re.findall("(.*)=(.*)", output.read_text()))
        return ended, outputs, summary.read_text()

    return run


def test_inputs_never_become_text_of_the_shell(action):
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"]


def test_action_annotates_writes_sarif_and_a_summary(run_action, configs):
    ended, outputs, summary = run_action(configs)
    assert ended.code == 1
    assert "::error file=bad.toml,line=2,endLine=2,col=7," in ended.out
    (sarif,) = json.loads(Path(outputs["sarif"]).read_text())["runs"]
    rows = [line for line in summary.splitlines() if line.startswith("| error")]
    assert len(sarif["results"]) == len(rows) == int(outputs["findings"]) == 2
    assert rows[0].startswith(LINE.format(path="bad.toml"))
    assert "<code>" in rows[0]


def test_action_takes_paths_and_options_as_they_are(run_action, configs):
    name = "$(touch pwned) `touch pwned`; [x](y) <b>.toml"
    (configs / "bad.toml").rename(configs / name)
    inputs = {"paths": f"good.toml\n{name}", "args": "--ignore\nvalue-out-of-range"}
    ended, outputs, summary = run_action(configs, **inputs)
    assert (ended.code, outputs["findings"]) == (1, "1")
    assert not (configs / "pwned").exists()
    assert "(y) &lt;b&gt;.toml:2:7" in summary
    assert "[x]" not in summary


def test_action_says_what_lint_cannot_do(run_action, configs):
    ended, outputs, summary = run_action(configs, args=" --select  no-such-rule \n")
    assert (ended.code, outputs) == (2, {})
    assert summary.startswith("### fp8tune could not check everything: the log")
    assert ended.out.count("no-such-rule") == 1


def pull_request(configs, clone, name, text, branch="merged"):
    """Clone a branch at depth 1, after a pull request that adds a file to `configs`."""
    commit(configs)
    git(configs, "checkout", "-q", "-b", "change")
    (configs / name).write_text(text)
    git(configs, "add", "--all")
    git(configs, "commit", "--quiet", "--message", "change")
    git(configs, "checkout", "-q", "-b", "merged", "HEAD^")
    git(configs, "merge", "--quiet", "--no-ff", "--message", "merge", "change")
    git(
        configs.parent,
        "clone",
        "-q",
        "--depth=1",
        "-b",
        branch,
        configs.as_uri(),
        clone,
    )
    return {
        "GITHUB_SHA": git(configs, "rev-parse", "HEAD").strip(),
        "GITHUB_BASE_REF": "main",
        "GITHUB_EVENT_NAME": "pull_request",
    }


@pytest.mark.parametrize(("name", "findings"), [("more.toml", "2"), ("more.md", "0")])
def test_action_checks_what_a_pull_request_changes(
    run_action, configs, tmp_path, name, findings
):
    text = (configs / "bad.toml").read_text() if findings != "0" else "words"
    env = pull_request(configs, tmp_path / "clone", name, text)
    ended, outputs, summary = run_action(tmp_path / "clone", env, changed="True")
    assert (ended.code, outputs["findings"]) == (int(findings != "0"), findings)
    assert (LINE.format(path=f"./{name}") in summary) == (findings != "0")
    assert "::warning::" not in ended.out


@pytest.mark.parametrize(
    ("branch", "event"), [("change", "pull_request"), ("merged", "pull_request_target")]
)
def test_action_checks_all_files_of_another_checkout(
    run_action, configs, tmp_path, branch, event
):
    env = pull_request(configs, tmp_path / "clone", "more.md", "words", branch)
    env["GITHUB_EVENT_NAME"] = event
    ended, outputs, _ = run_action(tmp_path / "clone", env, changed="true")
    assert (ended.code, outputs["findings"]) == (1, "2")
    assert "::warning::fp8tune: all files are checked, because this" in ended.out


def test_action_says_which_path_is_not_there(run_action, configs, tmp_path):
    env = pull_request(configs, tmp_path / "clone", "more.md", "words")
    inputs = {"changed": "true", "paths": "confgs"}
    ended, outputs, _ = run_action(tmp_path / "clone", env, **inputs)
    assert (ended.code, outputs) == (2, {})
    assert "confgs: No such file or directory" in ended.out


def fences(repository):
    guide = (repository / "docs/guides/ci.md").read_text()
    return map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL))


def test_gitlab_job_of_the_guide_writes_its_report(repository, wheel, configs):
    (job,) = (fence["fp8tune"] for fence in fences(repository) if "fp8tune" in fence)
    script = "\n".join(job["script"]).replace("git+ADDRESS-OF-FP8TUNE", str(wheel))
    environment = configs / "venv"
    must("python3", "-m", "venv", environment, folder=configs)
    (configs / "configs").mkdir()
    (configs / "bad.toml").rename(configs / "configs/bad.toml")
    path = f"{environment}/bin:/usr/bin:/bin"
    ended = execute("bash", "-eo", "pipefail", "-c", script, folder=configs, PATH=path)
    report = configs / job["artifacts"]["reports"]["codequality"]
    assert ended.code == 1
    assert [each["location"]["path"] for each in json.loads(report.read_text())] == [
        "configs/bad.toml",
        "configs/bad.toml",
    ]


def test_workflow_of_the_guide_uses_the_outputs_of_the_action(repository, action):
    (workflow,) = (fence for fence in fences(repository) if "steps" in fence)
    steps = {step.get("id"): step for step in workflow["steps"]}
    assert set(steps["fp8tune"]["with"]) <= set(action["inputs"])
    upload = workflow["steps"][-1]
    names = re.findall(r"steps\.fp8tune\.outputs\.(\w+)", upload["with"]["sarif_file"])
    assert set(names) <= set(action["outputs"])
    assert upload["if"] == "always() && steps.fp8tune.outputs.sarif"
