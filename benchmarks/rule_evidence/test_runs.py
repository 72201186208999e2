"""The runner of experiments, on a trainer of a few lines instead of KempnerForge."""

import subprocess
import sys
import tomllib

import pytest

from benchmarks.paths import ROOT
from benchmarks.rule_evidence.config import SMALL, shrink, with_data
from benchmarks.rule_evidence.launch import Run, launch

TRAINER = {
    "kempnerforge/__init__.py": "",
    "kempnerforge/distributed/__init__.py": "",
    "kempnerforge/distributed/setup.py": """
import torch
from torch.distributed.device_mesh import init_device_mesh
def init_distributed():
    torch.cuda.set_device(0)
""",
    "kempnerforge/metrics/__init__.py": "",
    "kempnerforge/metrics/tracker.py": """
class MetricsTracker:
    def end_step(self, *, step, tokens_in_step):
        print("step", step)
""",
    "kempnerforge/resilience/__init__.py": "",
    "kempnerforge/resilience/health.py": """
import torch
def flag(value):
    return torch.tensor([value], device="cuda")
""",
    "kempnerforge/training.py": """
import torch
def build_optimizer(model, name):
    return {"sgd": torch.optim.SGD}[name](model.parameters(), lr=0.5)
def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
""",
    "scripts/train.py": """
import sys
import tomllib
import torch
from kempnerforge.distributed.setup import init_distributed
from kempnerforge.metrics.tracker import MetricsTracker
from kempnerforge.resilience.health import flag
from kempnerforge.training import build_optimizer, build_scheduler

def main():
    config = tomllib.load(open(sys.argv[1], "rb"))
    init_distributed()
    model = torch.nn.Linear(8, 256, bias=False)
    optimizer = build_optimizer(model, config["optimizer"]["name"])
    scheduler = build_scheduler(optimizer)
    tracker = MetricsTracker()
    for step in range(config["train"]["max_steps"]):
        hidden = model(torch.ones(4, 8))
        (hidden * hidden).sum().backward()
        optimizer.step()
        scheduler.step()
        assert flag(1.0).item() == 1.0
        tracker.end_step(step=step + 1, tokens_in_step=4)

main()
""",
}
ONE_RANK = """
import json, os, pathlib, sys, time
rank = int(os.environ["RANK"])
{what}
report = {{"error": error, "failed_at": "here", "ended": rank, "steps": 2}}
pathlib.Path(sys.argv[-1]).with_name(f"rank{{rank}}.json").write_text(json.dumps(report))
sys.exit(bool(error))
"""


@pytest.fixture
def checkout(tmp_path):
    """A trainer with the modules that the runner watches or answers for."""
    pytest.importorskip("torch")
    for name, text in TRAINER.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "checkout"


def run(checkout, config, *names):
    return Run(checkout, config, "cpu", 1, list(names), timeout=600)


def test_a_run_is_watched(checkout, tmp_path):
    config = '[optimizer]\nname = "sgd"\n[train]\nmax_steps = 3\n'
    names = "tokens_per_step all_parameters kept_gib graph_breaks step_ms last_rate"
    seen = launch(run(checkout, config, *names.split()), tmp_path / "run")
    assert seen.pop("step_ms") > 0
    assert seen == {
        "error": "",
        "failed_at": "",
        "steps": 3,
        "tokens_per_step": 4,
        "last_rate": 0.125,
        "all_parameters": 8 * 256,
        "kept_gib": round((4 * 8 + 4 * 256) * 4 / 2**30, 6),
        "graph_breaks": 0,
    }


def test_a_failure_is_told_with_its_line_of_the_script(checkout, tmp_path):
    config = '[optimizer]\nname = "SGD"\n[train]\nmax_steps = 3\n'
    seen = launch(run(checkout, config, "all_parameters"), tmp_path / "run")
    assert seen == {
        "error": "KeyError: 'SGD'",
        "failed_at": 'optimizer = build_optimizer(model, config["optimizer"]["name"])',
        "steps": 0,
        "all_parameters": 8 * 256,
    }


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("error = ''", ""),
        ("error = 'E: of 2' if rank == 2 else ''", "E: of 2"),
        ("error = f'E: of {rank}' if rank else ''", "E: of 1"),
        ("error = 'E: x' if rank else time.sleep(99)", "E: x"),
        ("error = ''; rank or time.sleep(99)", "TimeoutError: no end after 3 s"),
        ("error = ''; rank and sys.exit('gone')", "died without a report: gone\n"),
    ],
    ids=["well", "one", "first of two", "others are ended", "late", "dead"],
)
def test_ranks_are_one_run(tmp_path, monkeypatch, what, error):
    waits = "sleep" in what
    monkeypatch.setattr("benchmarks.rule_evidence.launch.GRACE", 0.5 if waits else 600)
    command = [sys.executable, "-c", ONE_RANK.format(what=what)]
    timeout = 3 if error.startswith("TimeoutError") else 600
    whole = Run(tmp_path, "", "cpu", 3, [], timeout)
    seen = launch(whole, tmp_path / "run", command)
    assert seen["error"] == error
    assert (tmp_path / "run" / "rank0.json").exists() == (not waits)


def test_a_config_is_shrunk_where_it_leaves_keys_open():
    text = "# fp8tune: gpu=h100\n[model]\ndim = 96 # mine\nn_heads = 6\n"
    values = tomllib.loads(shrink(text, "cuda"))
    assert values["model"] == {
        "dim": 96,
        "n_heads": 6,
        "n_layers": SMALL["model"]["n_layers"],
        "vocab_size": SMALL["model"]["vocab_size"],
    }
    assert values["train"] == SMALL["train"]
    assert "vlm" not in values
    assert "distributed" not in values
    assert shrink(text, "cuda").startswith("# fp8tune: gpu=h100\n[model]\n")


def test_on_the_cpu_groups_are_of_gloo_unless_said():
    said = '[distributed]\nbackend = "mine"\n'
    assert tomllib.loads(shrink("", "cpu"))["distributed"] == {"backend": "gloo"}
    assert tomllib.loads(shrink(said, "cpu"))["distributed"] == {"backend": "mine"}


def test_data_is_made_on_the_spot(tmp_path):
    numpy = pytest.importorskip("numpy")
    text = with_data('[data]\ndataset_path = "/data/tokens"\nseed = 1\n', tmp_path)
    data = tomllib.loads(text)["data"]
    assert data == {"dataset_path": str(tmp_path / "tokens"), "seed": 1}
    assert numpy.load(f"{data['dataset_path']}/tokens.npy").size > 1000


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--help",), 0, "run the experiments"),
        (("trainer",), 2, "no torch here: take a Python with the trainer's"),
    ],
)
def test_without_torch(tmp_path, arguments, code, said):
    """A Python that finds no torch can still be asked what the command does."""
    (tmp_path / "trainer" / "scripts").mkdir(parents=True)
    (tmp_path / "trainer" / "scripts" / "train.py").touch()
    script = (
        "import sys; sys.modules['torch'] = None; sys.path.insert(0, sys.argv.pop(1));"
        "from benchmarks.rule_evidence.__main__ import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", script, str(ROOT), *arguments]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code
    assert said.casefold() in (ended.stdout + ended.stderr).casefold()
    assert "Traceback" not in ended.stderr
