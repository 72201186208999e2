"""A config, recorded trials of it, and what a search answers to them."""

from tests.search.tries import (
    BEST,
    BEST_BF16,
    BF16,
    GIVEN,
    ran,
)
from tests.search.tries import CONFIG as TRAIN

CONFIG = "# my model\n" + TRAIN.replace("= 8\n", "= 8  # 16 sequences a step\n")

RECORDS = [
    ran(GIVEN, 100, peak_gib=20.0),
    ran(BF16, 90, peak_gib=20.0),
    ran(BEST, 150, peak_gib=35.0),
    ran(BEST_BF16, 120, peak_gib=35.0),
    ran((3, 1, 1, 1), outcome="oom", cost_s=30.0),
]


def lines(records):
    return "".join(f"{record.line()}\n" for record in records)


def answered(replay, *arguments, **options):
    done = replay(*arguments, "--output-format", "json", **options)
    return done.code, done.json
