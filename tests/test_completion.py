"""What the shell offers, by click's own protocol."""

import os
import subprocess
import sys

from tests.each import each


def offered(words, folder, word):
    """The words that complete the last one."""
    done = subprocess.run(
        [sys.executable, "-c", "from fp8tune.program import main; main()"],
        env=os.environ
        | {
            "_FP8TUNE_COMPLETE": "bash_complete",
            "COMP_WORDS": f"fp8tune {words}",
            "COMP_CWORD": str(word),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.removeprefix("plain,") for line in done.stdout.splitlines()]


@each(
    ("words", "expected"),
    [
        ("es", ["estimate"]),
        ("lint --gpu gh200-9", ["gh200-96gb"]),
        ("lint --select slow,fp8-without-c", ["slow,fp8-without-compile"]),
        ("explain train.batch_", ["train.batch_size"]),
        ("explain memory.peak_g", ["memory.peak_gib"]),
        ("init --model tiny", ["tinyllama-1.1b"]),
        ("report train-", ["train-1234abcd"]),
    ],
)
def test_the_shell_offers(words, expected, tmp_path):
    (tmp_path / ".fp8tune" / "train-1234abcd").mkdir(parents=True, exist_ok=True)
    assert offered(words, tmp_path, len(words.split())) == expected
