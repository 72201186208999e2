"""Whole processes: pipes, closed streams, full devices, odd locales."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lint.bad_input.cases import CONFIG
from tests.lint.bad_input.running import ACTS, Ended

REPOSITORY = Path(__file__).parents[3]


def shell(command, **variables):
    """Run a command line of the shell; ``$lint`` is ``fp8tune lint``."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPOSITORY),
        "lint": f"{sys.executable} -m fp8tune lint",
        **variables,
    }
    done = subprocess.run(
        ["/bin/sh", "-c", command], env=environment, capture_output=True, timeout=600
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("$lint ok.toml", 0),
        ("$lint bad.toml", 1),
        ("$lint - < bad.toml", 1),
        ("$lint utf.toml", 1),
        ("$lint - < utf.toml", 1),
        ("$lint --output-format json - < utf.toml", 1),
        ("$lint - < /dev/null", 2),
        ("$lint - < /dev/zero", 2),
        ("yes '[train]' | $lint -", 2),
        ("yes '[train]' | head -1000 | $lint -", 1),
        ("mkfifo f.toml; $lint f.toml", 2),
        ("$lint nope.toml", 2),
        ("$lint $(printf 'a\\033[31m\\n\\377.toml')", 2),
        ("n=$(printf '\\377\\033.toml'); cp bad.toml $n; $lint $n", 1),
        ("$lint - <&-", 2),
        ("$lint - 0> written", 2),
        ("$lint bad.toml >&-", None),
        ("$lint --output-format json bad.toml >&-", None),
        ("$lint nope.toml 2>&-", 2),
        ("$lint bad.toml > /dev/full", 2),
        ("$lint --output-format concise bad.toml > /dev/full", 2),
        ("$lint --output-format json bad.toml > /dev/full", 2),
        ("$lint nope.toml 2> /dev/full", 2),
        ("$lint --nope 2> /dev/full", 2),
        ("mkfifo p; true < p & $lint bad.toml > p", 2),
        ("mkfifo p; true < p & $lint many.toml > p", 2),
        ("mkfifo p; head -c 1 < p & $lint many.toml > p", None),  # a pipe may hold it
        ("mkdir p; mkfifo p/pyproject.toml; cp bad.toml p; $lint p/bad.toml", 1),
        ("ulimit -n 16; $lint bad.toml", 1),
    ],
)
def test_in_a_shell(command, code, folder):
    files = {
        "ok.toml": CONFIG.encode(),
        "bad.toml": b"[train]\nbatch_size = 0\nmixed_precision = '\xc2\x9b\xc3\xa4'\n",
        "utf.toml": b"[train]\nbatch_size = '\xff'\n",
        "many.toml": b"[train]\n" + b"".join(b"k%d = 1\n" % i for i in range(20_000)),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    # unbuffered output meets a closed or full stream sooner: at the first line
    unbuffered = [{"PYTHONUNBUFFERED": "1"}] if ">" in command else []
    for variables in ({}, *unbuffered):
        ended = shell(command, **variables)
        assert not re.findall("Traceback|Exception ignored", ended.err)
        assert not ACTS.findall(ended.out + ended.err)
        assert ended.code in ((0, 1, 2) if code is None else (code,))


@pytest.mark.parametrize(
    "variables",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "utf-8:strict"},
        {"PYTHONWARNINGS": "error"},
        {"PYTHONINTMAXSTRDIGITS": "640"},
        {"PYTHONDEVMODE": "1"},
    ],
    ids=str,
)
def test_in_other_surroundings(variables, folder):
    name = os.fsdecode(b"\xff\xe4.toml")
    text = f"[train]\nbatch_size = {'9' * 1000}\nmixed_precision = 'ä😀'\n"
    Path(name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "fp8tune", "lint", name, "no\ufffd.toml"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        timeout=600,
    )
    assert b"Traceback" not in done.stderr
    assert b"Warning" not in done.stderr
    assert done.returncode == 2
