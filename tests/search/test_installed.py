"""The config of a search is read as for the packages that its trials will have."""

import sys

from fp8tune.search.options import SearchOptions
from fp8tune.search.overrides import config_asked
from fp8tune.search.real_trials import plan_search, read_as_installed
from tests.each import each
from tests.metadata import write_metadata
from tests.search.test_written_formats import FACTORY


@each(
    ("llamafactory", "transformers", "precision", "why"),
    [
        # of one sequence its tokens are no multiple of 16
        ("0.9.5", "4.57.1", "fp8", ["float8-with-any-length"]),
        # whose Trainer keeps FP8 off
        ("0.9.5", "5.6.0", "bf16", ["fp8-with-transformers-5"]),
        # of which no trainer gets the switch
        ("0.9.4", "4.57.1", "bf16", ["fp8-never-read"]),
    ],
)
def test_the_python_that_has_the_trainer_says_what_the_config_does(
    tmp_path, monkeypatch, llamafactory, transformers, precision, why
):
    path, site = tmp_path / "train.yaml", tmp_path / f"{llamafactory}-{transformers}"
    path.write_text(f"{FACTORY}fp8: true\n")
    installed = {"llamafactory": llamafactory, "transformers": transformers}
    write_metadata(site, installed)
    monkeypatch.setenv("PYTHONPATH", str(site))
    options = SearchOptions(str(path), "1m", runner="trainer", python=sys.executable)
    with read_as_installed(options):
        config = config_asked(options, "", "", 1)
        notes = plan_search(options, config).notes
    assert [note.rpartition("[")[2].rstrip("]") for note in notes] == why
    found = config.trainer.id, config.job["precision"]
    assert found == (f"llamafactory=={llamafactory}", precision)
