"""How many GPUs trials stand for is said, also where the file means others."""

import pytest

from fp8tune.job import Target
from fp8tune.search.plan import read_config, world_size_note, world_size_warning

TITLE = "# Llama-3 7B - 16 GPUs (4 nodes x 4), FP8\n"
SAID = "# fp8tune: world-size=8\n"
ASKED = Target("", 4, "", "--world-size")
CONFIG = """\
[train]
batch_size = 2
mixed_precision = "fp8"
[distributed]
"""
STAND = "speeds are for a run on"
UNSAID = f"{STAND} 1 GPU, as nothing says how many; --world-size N sets it"
FOR_MORE = (
    "warning: a.toml:1: the title says 16 GPUs; the best on 1 GPU may not be "
    "the best there; give --world-size 16"
)


@pytest.mark.parametrize(
    ("header", "more", "target", "stands", "warning"),
    [
        ("", "", Target(), UNSAID, ""),
        (TITLE, "", Target(), UNSAID, FOR_MORE),
        (TITLE.replace("16", "1"), "", Target(), UNSAID, ""),
        (TITLE, "", ASKED, f"{STAND} 4 GPUs, set by --world-size", ""),
        (
            TITLE + SAID,
            "",
            Target(),
            f"{STAND} 8 GPUs, set by the comment on line 2",
            "",
        ),
        (
            "",
            "dp_shard = 8\n",
            Target(),
            f"{STAND} 8 GPUs, set by the parallel degrees",
            "",
        ),
    ],
)
def test_how_many_gpus_trials_stand_for(header, more, target, stands, warning):
    config = read_config("a.toml", f"{header}{CONFIG}{more}".encode(), target, "", 1)
    assert (world_size_note(config), world_size_warning(config)) == (stands, warning)
