"""``lint --watch`` in a process of its own, ended by Ctrl-C."""

import signal
import subprocess
import sys

import pytest

from tests.sample import TP


@pytest.fixture
def watching(project):
    """Start ``lint --watch`` in a folder of these files, and end it."""
    started = []

    def start(files, *arguments):
        folder = project(files)
        command = [sys.executable, "-m", "fp8tune", "lint", "--watch", *arguments]
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # a job in the background ignores it
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        started.append(process)
        return folder, process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def told(process):
    """Return the rules and errors that the next check prints."""
    lines = []
    for line in process.stdout:
        if line.startswith("watching "):
            return lines
        if line.startswith("fp8tune: "):
            lines.append(line.strip())
        elif "[" in line.partition(" ")[0]:
            lines.append(line.partition("[")[2].partition("]")[0])
    raise AssertionError("it has ended")


def end(process):
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=60)


def test_files_settings_and_other_files_of_a_job_are_watched(watching):
    rule = "fp8-with-tensor-parallel"
    folder, process = watching({"a.toml": TP}, "--select", rule)
    assert told(process) == [rule]
    settings = folder / "pyproject.toml"
    settings.write_text(f'[tool.fp8tune]\nignore = ["{rule}"]\n')
    assert told(process) == []
    settings.write_text("[tool.fp8tune]\ngpus = 1\n")
    place = f"fp8tune: {settings}: [tool.fp8tune]"
    assert told(process) == [f"{place} has no setting `gpus`; did you mean `gpu`?"]
    settings.unlink()
    assert told(process) == [rule]
    (folder / "a.toml").write_text(TP.replace("tp = 4", "tp = 1"))
    assert told(process) == []
    (folder / "b.toml").write_text(TP)
    assert told(process) == [rule]
    assert end(process) == 1


def test_a_job_outside_of_the_folder_is_watched_too(watching):
    launch = (
        "# fp8tune: with=../sft.yaml\ndistributed_type: FSDP\nmixed_precision: fp8\n"
        "num_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
        "  fsdp_cpu_ram_efficient_loading: false\n"
        "  fsdp_state_dict_type: SHARDED_STATE_DICT\nfp8_config:\n  backend: AO\n"
    )
    arguments = "bf16: false\ntorch_compile: true\n"
    files = {"jobs/launch.yaml": launch, "sft.yaml": arguments}
    folder, process = watching(files, "jobs")
    assert told(process) == []
    (folder / "sft.yaml").write_text(arguments.replace("false", "true"))
    assert told(process) == ["fp8-backend-off-by-arguments"]
    (folder / "sft.yaml").write_text(arguments)
    assert told(process) == []
    assert end(process) == 0


@pytest.mark.parametrize("words", ["-", "--fix", "--output-format json"])
def test_what_writes_or_cannot_be_repeated_is_refused(project, fp8tune, words):
    project({"a.toml": TP})
    ended = fp8tune("lint", "--watch", *words.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("fp8tune: --watch prints findings of files: ")
