"""Blocks of a script, such as ``if``: which branches run, and what they set."""

from __future__ import annotations

from fp8tune.formats.bash.values import CONDITION, Value, Word, hole


class Block:
    """A block that is open, with what the variables that it sets may be after it.

    The first such value is the one before the block, then that of each branch.
    ``reached`` says whether the block runs, ``runs`` whether a branch of it does, which
    is decided where the tests before it compare known texts, ``taken`` whether an
    earlier branch ran, and ``sure`` whether all that may run certainly does.
    ``branches`` is how many have ended, ``whole`` whether one of them always runs.
    ``word`` is the text that a ``case`` compares, empty if unknown, ``matches`` whether
    each pattern of the next branch is that text.
    """

    def __init__(self, kind: str, *, reached: bool | None) -> None:
        self.kind = kind
        self.names: dict[str, list[Value | None]] = {}
        self.reached = reached
        self.runs: bool | None = None
        self.taken: bool | None = False
        self.sure = reached is True and kind in ("if", "{", "case")
        self.branches, self.whole = 0, False
        self.word = ""
        self.matches: list[bool | None] = []

    @property
    def skipped(self) -> bool:
        """Whether what stands here does not run."""
        return self.reached is False or self.runs is False

    def begin(self, variables: dict[str, Value]) -> None:
        """Begin the first branch: what its test sets, it sets for all branches."""
        if self.reached:
            self.names.clear()
        for name in self.names:
            self.names[name] = [hole(f"${name}", CONDITION)]
            variables[name] = hole(f"${name}", CONDITION)

    def after(self, name: str) -> list[Value | None]:
        """Return what a variable may be after the block."""
        values = self.names[name]
        set_in_all = self.whole and len(values) == self.branches + 1
        return values[1:] if set_in_all and self.reached else values

    def compare(self, pattern: Word, *, quoted: bool) -> None:
        """Compare a pattern of a ``case`` with its word."""
        special = set(pattern.text) & set("*?[()\\")
        if pattern.text == "*" and not quoted:
            self.matches.append(True)
        elif pattern.unknown or not self.word or special:
            self.matches.append(None)
        else:
            self.matches.append(pattern.text == self.word)

    def match(self, *, again: bool) -> None:
        """Begin the branch of the patterns; ``again`` if it may be read repeatedly."""
        found = None if None in self.matches else False
        truth = True if True in self.matches else found
        self.then(None if again else truth)
        self.matches = []

    def then(self, truth: bool | None) -> None:
        """Begin a branch, given the result of its test."""
        if self.taken or truth is False:
            self.runs = False
        else:
            self.runs = None if self.taken is None else truth
        self.taken = self.taken or truth
        self.sure = self.sure and self.runs is not None
