"""``fp8tune verify`` from its command line to its exit code."""

import gzip
import threading
import time
from functools import partial

import pytest

from fp8tune.verify import run as verify_run
from fp8tune.verify.inputs import kind_of
from tests.each import each
from tests.verify import gallery

GOOD = gallery.kempnerforge(gallery.APPLIED)
DENIED = (
    "FP8 was requested but Accelerate shows fp8_enabled=False. FP8 may not be working."
)


@pytest.fixture
def call(project, fp8tune):
    project({"train.toml": gallery.CONFIG, "train.log": GOOD})
    return partial(fp8tune, "verify")


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    for name, model in (("fp8", gallery.converted), ("bf16", gallery.decoder)):
        gallery.recorded(str(folder / f"{name}_trace.json"), gallery.trains(model))
    return folder


def test_exit_codes(call, traces):
    config = ("--config", "train.toml")
    fp8, bf16 = (str(traces / f"{name}_trace.json") for name in ("fp8", "bf16"))
    assert call("train.log", fp8, *config)[0] == 0
    assert call("train.log", bf16, *config)[0] == 1
    assert call("train.log", *config)[0] == 3
    assert call("nothing.log")[0] == 2


def test_json(call, traces):
    path = str(traces / "bf16_trace.json")
    options = ("--config", "train.toml", "--output-format", "json")
    answer = call("train.log", path, *options).json
    gemms = answer.pop("gemms")
    assert (gemms["fp8"], gemms["expected_share"]) == (0, 1.0)
    assert gemms["other"] > 0
    assert answer.pop("causes")[0]["code"] == "log-claims-fp8"
    assert [one["code"] for one in answer.pop("reasons")] == [
        "asked",
        "claimed",
        "no-fp8-gemms",
    ]
    assert answer == {
        "version": 1,
        "verdict": "not-fp8",
        "trainer": "kempnerforge",
        "asked": True,
        "claimed": True,
        "missing": [],
        "calibrate": None,
    }


def test_the_folder_of_a_run_has_log_trace_and_config(call, traces, project):
    trace = (traces / "fp8_trace.json").read_bytes()
    files = {
        "run/train.log.gz": gzip.compress(GOOD.encode()),
        "run/train.toml": gallery.CONFIG,
        "run/traces/host_1.pt.trace.json.gz": gzip.compress(trace),
    }
    project(files)
    code, out, _ = call("run")
    assert code == 0
    assert "run/train.toml:15: the config asks for FP8" in out
    assert "fp8tune estimate run/train.toml --measured 0.5 --measured-speed 1024" in out


def test_a_log_of_other_settings_is_said(call, project):
    project({"train.log": GOOD.replace("batch_size=2", "batch_size=8")})
    _, out, _ = call("train.log", "--config", "train.toml")
    assert "warning[other-settings] train.log: the log has train.batch_size = 8" in out


NAN = "[rank 0] WARNING  NaN/Inf loss at step 21 (consecutive=1, total=1)\n"
INSTALLED = "torch==2.14.1\ntorchao==0.17.0\n"
FIXED = "torch==2.14.1\ntorchao==0.18.0\n"
LISTED = "torch                     2.14.1\ntorchao                   0.17.0\n"
EAGER = "Training config: JobConfig(train=TrainConfig(compile_model=False))"
COMPILED = gallery.CONFIG.replace("compile_model = false", "compile_model = true")
COLLECTED = "PyTorch version: 2.14.1+cu130\n[pip3] torchao==0.17.0\n"


@each(
    ("before", "kept", "log", "arguments", "cause"),
    [
        (INSTALLED, "", GOOD, (), "nan-of-versions"),
        (COLLECTED, "", GOOD, (), "nan-of-versions"),
        ("torch==2.14.1\n", "torchao==0.17.0\n", GOOD, (), "nan-of-versions"),
        ("", "", GOOD, ("--config", "pinned/train.toml"), "nan-of-versions"),
        ("", "", GOOD, (), "nan-loss"),
        (FIXED, "", GOOD, (), "nan-loss"),
        (INSTALLED, "", gallery.kempnerforge(), (), "nan-loss"),
        (INSTALLED, "", gallery.kempnerforge(gallery.APPLIED, EAGER), (), "nan-loss"),
    ],
)
def test_versions_are_the_first_cause_of_a_nan(
    call, project, before, kept, log, arguments, cause
):
    files = {
        "run/train.log": before + log.rpartition("[rank 0]")[0] + NAN,
        "run/files/requirements.txt": kept,
        "pinned/requirements.txt": INSTALLED,
        "pinned/train.toml": COMPILED,
    }
    project(files)
    found = call("run", *arguments, "--output-format", "json").json
    assert found["causes"][0]["code"] == cause


def test_folders_without_a_run(call, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = call("empty")
    assert code == 2
    assert "name the file itself" in err


def test_binary_files_in_a_folder_are_skipped(call, project):
    project({"run/core.out": bytes(range(256)) * 100})
    code, _, error = call("run")
    assert (code, error.splitlines()) == (
        2,
        [
            "fp8tune: run/core.out: binary data, not a log; skipped",
            "fp8tune: no log of these folders can be read; name the file itself",
        ],
    )
    project({"run/train.log": GOOD})
    assert call("run")[0] == 3
    assert call("run/core.out")[0] == 2


def test_a_config_is_no_log(call):
    assert "write --config train.toml" in call("train.toml")[2]


def test_a_log_from_stdin(call):
    code, out, _ = call("-", stdin=f"{DENIED}\n".encode())
    assert code == 1
    assert "stdin:1" in out


def test_follow_ends_when_the_answer_is_known(call, tmp_path, monkeypatch):
    monkeypatch.setattr(verify_run, "POLL_S", 0.02)
    log = tmp_path / "growing.log"

    def write():
        time.sleep(0.1)  # the job waits in the queue
        with log.open("w") as file:
            for line in (*gallery.step_lines(), DENIED):
                print(line, file=file, flush=True)
                time.sleep(0.005)

    writer = threading.Thread(target=write)
    writer.start()
    code, out, _ = call("growing.log", "--follow", "--timeout", "60")
    writer.join()
    assert code == 1
    assert out.startswith("NOT FP8")


def test_follow_ends_with_the_run_or_after_its_timeout(call, tmp_path, monkeypatch):
    monkeypatch.setattr(verify_run, "POLL_S", 0.02)
    assert call("train.log", "--follow", "--timeout", "60")[0] == 3
    (tmp_path / "train.log").write_text(GOOD.rpartition("[rank 0]")[0])
    assert call("train.log", "--follow", "--timeout", "0.1")[0] == 3
    code, _, error = call("never.log", "--follow", "--timeout", "0.1")
    assert (code, error) == (3, "fp8tune: waiting for never.log\n")


def test_follow_reads_traces_as_they_appear(call, traces, tmp_path, monkeypatch):
    monkeypatch.setattr(verify_run, "POLL_S", 0.02)
    (tmp_path / "train.log").write_text(GOOD.rpartition("[rank 0]")[0])
    folder = tmp_path / "profiles"
    folder.mkdir()

    def write():
        time.sleep(0.1)
        text = (traces / "fp8_trace.json").read_bytes()
        (folder / "a_trace.json").write_bytes(text)

    writer = threading.Thread(target=write)
    writer.start()
    arguments = "train.log profiles --follow --timeout 60 --config train.toml"
    code, out, _ = call(*arguments.split())
    writer.join()
    assert code == 0
    assert out.startswith("VERIFIED")


@each(
    ("head", "kind"),
    [
        (b'{\n  "schemaVersion": 1,\n  "traceEvents": [\n', "trace"),
        (gzip.compress(b'{"traceEvents": []}'), "trace"),
        (b"[rank 0] INFO     a log with a table\n   Name    Self CPU %\n", "log"),
        (b'{"message": "a log of JSON lines", "loss": 3.1}\n', "log"),
        (gzip.compress(GOOD.encode()), "log"),
    ],
)
def test_a_file_is_a_trace_by_its_beginning(head, kind, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(head)
    assert kind_of(str(path)) == kind
