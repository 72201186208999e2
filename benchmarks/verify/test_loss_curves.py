"""The tables of the guide."""

from benchmarks.verify import loss_curves


def test_the_runs_of_the_guide_are_the_recorded_ones():
    for name, text in loss_curves.tables().items():
        assert (loss_curves.TABLES / name).read_text(encoding="utf-8") == text
