"""What the pages of benchmarks say of their seeds."""

from pathlib import Path

import pytest

from benchmarks.search import first_steps, seeds, transfer_table, warmups
from benchmarks.search.head_start import Both, Outcome


def transferred(count, first):
    outcome = Outcome(*(1.0 for _ in Outcome._fields))
    pairs = [Both(outcome, outcome)] * count
    return transfer_table.markdown(transfer_table.summary({"near": pairs}, first))


PAGES = {
    "first_steps": lambda n, first: first_steps.markdown(
        list(first_steps.measured(n, first)), first
    ),
    "seeds": lambda n, first: seeds.markdown(
        list(seeds.measured(n, first, Path("no such file"))), first
    ),
    "warmups": lambda n, first: warmups.markdown(
        list(warmups.measured(n, first)), first
    ),
    "transfer": transferred,
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("first", "used"), [(0, "2"), (50000, "none")])
def test_seeds_that_tuning_used_are_counted(name, first, used):
    page = PAGES[name](2, first)
    assert f"seeds {first} and up, {used} of them used in tuning" in page
