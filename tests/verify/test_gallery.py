"""Runs that look fine and do not train in FP8 as asked are never called verified."""

from pathlib import Path

import pytest

from fp8tune.cli import named_config
from fp8tune.verify.run import verify
from tests.verify import gallery

RUNS = list(gallery.runs())


def word(run: gallery.Run, folder: Path) -> str:
    paths = []
    if run.log:
        log = folder / "train.log"
        log.write_text(run.log)
        paths.append(str(log))
    for rank, train in enumerate([run.train, *run.ranks] if run.train else []):
        path = str(folder / f"rank{rank}_trace.json")
        gallery.recorded(path, train, shapes=run.shapes)
        paths.append(path)
    config = None
    if run.config:
        file = folder / "train.toml"
        file.write_text(run.config)
        config = named_config(str(file), "h100", 1)
    return verify(tuple(paths), config).verdict.word


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name.replace(" ", "-"))
def test_a_run_that_only_looks_fine(run, tmp_path):
    assert word(run, tmp_path) in run.right


def test_the_good_run_is_verified(tmp_path):
    good = gallery.Run(
        "good",
        gallery.trains(gallery.converted),
        gallery.kempnerforge(gallery.APPLIED),
        ("verified",),
    )
    assert word(good, tmp_path) == "verified"
