"""The lines of trainers: each example is a test of its pattern."""

import io
import time
import tomllib
from pathlib import Path

import pytest

from fp8tune.verify import lines, patterns
from fp8tune.verify.evidence import QUANTITIES
from fp8tune.verify.log import read_file
from fp8tune.verify.patterns import known
from tests.each import each

LINES = [line for trainer in known().values() for line in trainer.lines]
EXAMPLES = [(line, example) for line in LINES for example in line.examples]


def log_of(*texts, trainer=""):
    """The log of these lines, read."""
    data = io.BytesIO("\n".join(texts).encode() + b"\n")
    return read_file(io.BufferedReader(data), trainer=trainer)


@each(("line", "example"), EXAMPLES, ids=lambda case: str(case[1])[:90])
def test_example_is_read_as_its_line_says(line, example):
    text = example["text"]
    assert set(example) <= {"text", "values", "count", "before"}
    assert any(trigger in text.encode() for trigger in line.triggers)
    above = [example["before"]] if "before" in example else []
    log = log_of(*above, text, trainer=line.trainer)
    if line.kind == "step":
        (curve,) = log.starts
        values = {**dict.fromkeys(QUANTITIES), **example["values"]}
        if "step" not in line.pattern.groupindex:
            values["step"] = None  # of an epoch, which a single line does not give
        if line.scale.get("tokens") == "seq_len":
            values["tokens"] = None
        got = {name: getattr(curve, name)[0] for name in QUANTITIES}
        expected = {n: values[n] if values[n] is not None else got[n] for n in got}
        assert got == pytest.approx(expected, nan_ok=True)
        unknown = {n for n in QUANTITIES if values[n] is None} - {"step", "tokens"}
        assert all(got[name] != got[name] for name in unknown)
    elif line.kind in ("setting", "config", "starts"):
        assert log.settings == {**log.settings, **example.get("values", {})}
    elif line.kind in ("ends", "stops"):
        assert log.ended is (line.kind == "ends")
    elif line.kind == "event":
        assert log.events[line.name].count == 1
    else:
        says = line.kind
        if line.kind == "counts":
            says = "proves" if example["count"] else "denies"
        expected = (says, line.name, example.get("count"))
        found = [(m.says, m.name, m.count) for m in log.mentions]
        assert expected in found


@each(
    "text",
    [
        "[rank 0] INFO     [step 10] moe/aux_loss=0.1 | moe/router_z_loss=0.0",
        "[rank 0] INFO     [step 10] eval/loss=2.1234 | eval/perplexity=8.3",
        "[rank 0] WARNING  NaN/Inf loss at step 10 (consecutive=9, total=9)",
        "[titan] 2025-12-14 04:41:25,709 - root - INFO - validate step:  5  loss:  9.9"
        "  memory: 34.43GiB(43.21%)  tps: 4,959",
        "12:00:01 SUCCESS Validation | Step 12 | Loss 0.4567",
        "{'eval_loss': '1.2', 'eval_runtime': '3.0', 'epoch': '0.1'}",
        "[val] step 0 | epoch 0 | loss 1.3000 | lr 1.00e-05 | num_label_tokens 4096",
        "Loading checkpoint shards: 100%|##########| 4/4 [00:02<00:00,  1.75it/s]",
        "12:00:01    INFO Loaded FP8 linear layers",
    ],
)
def test_other_lines_are_no_steps_and_say_nothing_of_fp8(text):
    log = log_of(text)
    assert (log.starts, log.mentions, log.settings) == ([], [], {})


@each("line", LINES, ids=lambda line: f"{line.trainer}: {line.name}")
def test_line_is_fast_on_hostile_text(line):
    trigger = line.triggers[0].decode()
    for junk in ("a", " ", "1", "[", "{", "| ", "'", trigger):
        text = (trigger + junk * lines.LONGEST)[: lines.LONGEST]
        started = time.process_time()
        for pattern in (line.pattern, *line.fields.values()):
            pattern.search(text)
        assert time.process_time() - started < 3


def test_what_trainers_include_and_multiply_is_there():
    settings = {
        *(name for line in LINES for name in line.pattern.groupindex),
        *(name for line in LINES for name in line.product),
        *(name for trainer in known().values() for name in trainer.settings),
    }
    for trainer in known().values():
        assert set(trainer.includes) <= set(known())
        own = set(trainer.tokens + trainer.tokens_over)
        assert {name for name in own if "." not in name} <= settings


def test_the_source_stands_in_every_file():
    folders = (Path(patterns.HERE), Path(patterns.HERE).parents[1] / "trainers")
    paths = [path for folder in folders for path in folder.rglob("*.toml")]
    logs = [p for p in paths if p.name == "log.toml" or p.parent.name == "logs"]
    assert len(logs) == len(known())
    for path in logs:
        text = path.read_text(encoding="utf-8")
        assert "# Source: " in text
        assert tomllib.loads(text)["title"]
