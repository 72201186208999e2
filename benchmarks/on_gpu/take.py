"""Put the archive of a session into a folder of the recorded results.

The archive is not trusted: it is checked whole before anything is written, and only
results that can be read are kept. Logs, which name paths of that machine, stay in it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.on_gpu import records
from benchmarks.on_gpu.archive import BadArchive, unpack
from benchmarks.paths import ROOT
from fp8tune.search.saved_study import load_study
from fp8tune.search.storage import BadStudy
from fp8tune.words import plain

ENVIRONMENT, STEPS, DOCTOR = "environment.json", "steps.jsonl", "doctor.json"
RESULTS = "results/"
JOURNAL = re.compile(r"studies/[^/]+/study\.journal")
PATHS = ("study", "output")
"""Fields of a search's answer that are paths of the machine."""


class Refused(Exception):
    """An archive is not taken; the message says why."""


def take(archive: Path, results: Path, commit: str = "") -> Path:
    """Write the results of an archive into a folder below ``results``; return it.

    A folder of the same session is replaced. ``commit`` is that of the session where
    the archive names none. Raises ``Refused``; then nothing is written.
    """
    try:
        files = unpack(archive)
    except BadArchive as error:
        raise Refused(str(error)) from None
    environment = _environment(archive, files)
    if commit:
        environment["commit"] = commit
    _check_commit(environment.get("commit", ""))
    results.mkdir(parents=True, exist_ok=True)
    folder = results / _name(environment)
    with tempfile.TemporaryDirectory(dir=results, prefix=".taking-") as made:
        new = Path(made) / "session"
        new.mkdir()
        _write_json(new / ENVIRONMENT, environment)
        for name in (STEPS, DOCTOR):
            (new / name).write_bytes(files.get(name, b""))
        for name, data in files.items():
            inside = name.removeprefix(RESULTS)
            if inside != name and "/" not in inside:
                _copy(new / inside, data)
        _studies(files, new, Path(made))
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    return folder


def _environment(archive: Path, files: Mapping[str, bytes]) -> dict[str, str]:
    try:
        found = json.loads(files[ENVIRONMENT])
    except KeyError:
        why = f"has no {ENVIRONMENT}: is it the session.tgz of gpu_session.sh?"
        raise Refused(f"{archive}: {why}") from None
    except (ValueError, RecursionError):
        raise Refused(f"{archive}: its {ENVIRONMENT} is no JSON") from None
    if not isinstance(found, dict):
        raise Refused(f"{archive}: its {ENVIRONMENT} is no JSON object")
    return {plain(str(k))[:40]: plain(str(v))[:200] for k, v in found.items()}


def _check_commit(commit: str) -> None:
    """Raise ``Refused`` unless a commit is in the history of this checkout."""
    if not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        raise Refused("the archive names no commit; add --commit COMMIT of its tree")
    git = ["git", "-C", str(ROOT)]
    ask = [*git, "merge-base", "--is-ancestor", commit, "HEAD"]
    if subprocess.run(ask, capture_output=True, check=False).returncode:  # noqa: S603
        head = subprocess.run(  # noqa: S603
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        )
        here = head.stdout.strip()[:12] or "no git history"
        raise Refused(
            f"the archive is of commit {commit[:12]}, which is not in the history of "
            f"this checkout ({here}): take it in a checkout that has that commit"
        )


def _name(environment: Mapping[str, str]) -> str:
    parts = (
        environment.get("date", "undated"),
        environment.get("time", ""),
        environment.get("gpu", "cpu").removeprefix("NVIDIA "),
        environment["commit"][:8],
    )
    plain_parts = (re.sub(r"[^a-z0-9]+", "-", part.lower()) for part in parts)
    return "_".join(filter(None, plain_parts))


def _copy(path: Path, data: bytes) -> None:
    """Write a file of results; one of JSON that cannot be read is left out."""
    try:
        if path.suffix == ".jsonl":
            lines = data.splitlines(keepends=True)
            data = b"".join(line for line in lines if _is_json(line))
        elif path.suffix == ".json":
            found = json.loads(data)
            if isinstance(found, dict):
                data = _json({k: v for k, v in found.items() if k not in PATHS})
        elif path.suffix != ".toml":
            return
    except (ValueError, RecursionError) as error:
        print(f"left out: {path.name}: {plain(str(error))[:100]}")
        return
    path.write_bytes(data)


def _is_json(line: bytes) -> bool:
    """Return whether a line is JSON: the last one may be cut off."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _studies(files: Mapping[str, bytes], new: Path, scratch: Path) -> None:
    """Write the trials of each study as records, with its config."""
    for name in filter(JOURNAL.fullmatch, files):
        folder = scratch / Path(name).parent.name
        folder.mkdir()
        (folder / "study.journal").write_bytes(files[name])
        try:
            study = load_study(str(folder))
        except BadStudy as error:
            said = plain(str(error)).replace(str(folder), folder.name)
            print(f"left out: {said[:200]}")
            continue
        config = study.plan.config
        stem = re.sub(r"[^\w-]", "_", Path(config.path).stem)
        for trial in study.trials:
            record = trial.record
            record = record._replace(extra={**record.extra, "stage": trial.stage})
            records.add(new / f"search_{stem}.jsonl", config, record)


def _json(value: Any) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()


def _write_json(path: Path, value: Any) -> None:
    path.write_bytes(_json(value))
