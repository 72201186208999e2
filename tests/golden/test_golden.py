"""What the program prints, word for word: each transcript is run again and compared.

A transcript is a session of the shell. ``$ cat NAME`` is followed by the file's text,
``$ fp8tune ...`` by what the command prints, then by ``[stderr]`` and ``[exit CODE]``
if there is anything to say. ``$ machine NAME`` names the machine on which `fp8tune
doctor` runs. A search makes no report: its plots take most of the time. After a change
of words, write all transcripts again and read the diff:

    pytest tests/golden --update-golden
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.doctor.machines import MACHINES

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
STEP = re.compile(r"^\$ (cat|machine|fp8tune) (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path, project, fp8tune, monkeypatch, request):
    before = path.read_bytes().decode()
    folder, after = project(), []
    monkeypatch.setattr("fp8tune.commands.search._write_report", lambda *_: None)
    for kind, rest, body in STEP.findall(before):
        if kind == "cat":
            project({rest: body})
        elif kind == "machine":
            machine = MACHINES[rest]
            monkeypatch.setattr("fp8tune.doctor.machine.look", lambda _, m=machine: m)
        else:
            body = printed(fp8tune, folder, rest)
        after.append(f"$ {kind} {rest}\n{body}")
    if request.config.getoption("--update-golden"):
        path.write_text("".join(after), encoding="utf-8", newline="")
    else:
        assert "".join(after) == before


def printed(fp8tune, folder, command):
    """What a command prints, with ``FOLDER`` for where it runs."""
    arguments, _, stdin = command.partition(" < ")
    data = (folder / stdin).read_bytes() if stdin else b""
    ended = fp8tune(*shlex.split(arguments), stdin=data)
    text = ended.out
    if ended.err:
        text += f"[stderr]\n{ended.err}"
    if ended.code:
        text += f"[exit {ended.code}]\n"
    return text.replace(str(folder), "FOLDER")


def test_there_are_transcripts_of_every_command():
    commands = {path.stem.split("_")[0] for path in TRANSCRIPTS}
    assert commands >= {"doctor", "estimate", "explain", "lint", "rules", "search"}
