"""What a study says of its search: its files, its options, and how it ended."""

from __future__ import annotations

from typing import Any

from fp8tune.search.objective import SPEED

SEARCHED_IN = "searched_in"
"""In a shared storage: the host and folder of the search."""
COMPARES_LOSSES = "compares_losses"
"""Whether the search compares losses at the end."""
TEXTS = ("config_text", "files")
"""What holds the files of the job."""
DERIVED = (
    *("calibration", "options", "output", "ending", "answer", "knobs"),
    *("points", "given", "tuned", "unwritten", SEARCHED_IN, COMPARES_LOSSES),
)
"""What is not in the study's name, or follows from the rest."""


class Description(dict[str, Any]):
    """The user attributes of a study that describe its search, as JSON.

    ``Plan.about`` gives those that tell two searches apart, ``as_json`` the answer.
    Anybody may have written them: the properties give defaults for what is missing.
    """

    @property
    def objective(self) -> str:
        """What the search maximizes, as ``--objective`` takes it."""
        return str(self.get("objective") or SPEED)

    @property
    def is_replay(self) -> bool:
        """Whether the trials are recorded ones."""
        return "records" in self

    @property
    def device(self) -> str:
        """Where trials run: ``cuda``, ``cpu``, or ``""`` in a replay."""
        return "" if self.is_replay else str(self.get("device") or "")

    @property
    def allowed(self) -> tuple[str, ...]:
        """What ``--allow`` freed."""
        return tuple(map(str, self.get("allow") or ()))

    @property
    def options(self) -> dict[str, Any]:
        """The options of the last command, by name, without its storage's password."""
        options = self.get("options")
        return options if isinstance(options, dict) else {}

    @property
    def compares_losses(self) -> bool:
        """Whether the search compares losses at the end."""
        return self.get(COMPARES_LOSSES) is not False

    @property
    def output(self) -> str | None:
        """The tuned config, ``""`` if none was written, ``None`` before the end."""
        output = self.get("output")
        return output if isinstance(output, str) else None

    @property
    def searched_in(self) -> str:
        """The host and folder of the search, ``""`` if its storage is in its folder."""
        return str(self.get(SEARCHED_IN, ""))

    @property
    def texts(self) -> dict[str, str]:
        """The text of each file of the job, by its path."""
        others = {path: text for _, path, text in self.get("files") or ()}
        return {str(self.get("config")): str(self.get("config_text")), **others}
