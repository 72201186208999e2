"""What is wrong with a file before there is a job for the rules.

That its text does not parse, that its comments say nothing, and what the trainer's
own loader refuses or takes for something else.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.formats.document import Path, Span
from fp8tune.trainers.about import trainers

if TYPE_CHECKING:
    from fp8tune.formats.edits import Edit
    from fp8tune.trainers.hints import Hints
    from fp8tune.trainers.schema import Key, Schema

MAX_FAULTS, HINTS = 1000, 20
"""Most faults that are kept, and faults after which unknown keys get no hint."""

TITLED = "wrong-gpus-in-comment"
"""The kind of a title that names another number of GPUs than the file has."""

FACTS: dict[str, tuple[str, ...]] = {
    "invalid-toml": ("reason", "hint"),
    "invalid-yaml": ("reason", "hint"),
    "invalid-json": ("reason", "hint"),
    "duplicate-key": ("key", "line"),
    "duplicate-key-refused": ("key", "line"),
    "byte-order-mark": (),
    "unknown-key": (
        *("key", "name", "table", "hint", "meant", "sure", "home", "gone"),
        *("instead", "becomes", "lacks"),
    ),
    "ignored-key": (
        *("key", "name", "table", "hint", "meant", "sure", "home", "gone", "lacks"),
    ),
    "missing-header": ("key", "names", "section"),
    "bad-directive": ("reason",),
    "file-not-read": ("key", "value", "why", "advice"),
    "unresolved-values": ("key", "names"),
    "bad-ignore": ("reason", "hint", "meant"),
    "unknown-ignore": ("name", "until", "hint", "meant", "sure"),
    "unused-ignore": ("name", "until"),
    "expired-ignore": ("name", "until"),
    "value-not-allowed": ("key", "value", "allowed", "hint", "meant", "sure"),
    "unknown-precision": ("key", "value", "allowed", "hint", "meant", "sure"),
    "value-not-convertible": ("key", "value", "type"),
    "wrong-type": ("key", "value", "type", "meant"),
    "value-out-of-range": ("key", "value", "bound", "hint"),
    "value-truncated": ("key", "value", "result"),
    "read-as-false": ("key", "value"),
    "boolean-for-number": ("key", "value", "result"),
    "not-a-number": ("key", "value"),
    "not-text": ("key", "value"),
    "section-not-a-table": ("key", "value"),
    "table-replaced": ("key", "value"),
    "entry-not-a-table": ("key", "value", "table"),
    "missing-key": ("key", "name"),
    "ignored-argument": ("name", "key", "hint"),
    TITLED: ("said", "key", "value", "working"),
}
"""The kinds of faults that any trainer may have, and the facts of each for a message.

Those of one trainer's loader alone are in its ``trainer.toml``.
"""

UNKNOWN = ("unknown-key", "ignored-key")
"""The kinds of keys that a trainer does not have."""

FIXABLE = (
    "byte-order-mark",
    "bad-ignore",
    "unknown-ignore",
    "unused-ignore",
    "expired-ignore",
)
"""The kinds whose faults know the edits that fix them."""


def facts_of(kind: str, names: Iterable[str] = ()) -> tuple[str, ...]:
    """The facts of a kind of fault that a rule for these trainers may name.

    A rule that names no trainer may name those of any.
    """
    if kind in FACTS:
        return FACTS[kind]
    known = trainers()
    owners = (known[name] for name in names or known)
    return next((tuple(a.faults[kind]) for a in owners if kind in a.faults), ())


def kinds() -> tuple[str, ...]:
    """Every kind of fault, of whatever trainer."""
    own = (kind for about in trainers().values() for kind in about.faults)
    return tuple(dict.fromkeys((*FACTS, *own)))


class Argument(NamedTuple):
    """One argument of the trainer's command line.

    ``key`` and ``value`` are the spans of its key and of its value in ``text``.
    """

    text: str
    key: Span
    value: Span


class Fault(NamedTuple):
    """One thing that the loader refuses, or takes for something else.

    ``path`` is where it stands (a key that does not stand in the file points at
    its table), ``facts`` are the values for the rule's message; ``span`` is given
    where there is no path, ``edits`` where the fault knows what fixes it,
    ``argument`` where the value comes from the command line. ``others`` are further
    places of the same fault.
    """

    kind: str
    path: Path
    facts: dict[str, Any]
    span: Span | None = None
    edits: tuple["Edit", ...] = ()
    argument: Argument | None = None
    others: tuple[Path, ...] = ()


class Loaded(NamedTuple):
    """A config as the trainer would hold it after loading.

    ``values`` maps dotted keys to coerced values with defaults filled in; a key
    with a fault, or of an absent optional section, is missing. ``written`` holds
    the dotted keys that stand in the file or on the command line, ``arguments`` what
    the command line sets, by path, ``extra`` the keys of the user's fork.
    """

    values: dict[str, Any]
    written: set[str]
    faults: list[Fault]
    arguments: dict[Path, Argument] = {}
    extra: tuple[str, ...] = ()

    def argument(self, path: Path) -> Argument | None:
        """The argument that sets a key or a table above it, if one does."""
        above = (path[:end] for end in range(len(path), 0, -1))
        found = (self.arguments.get(each) for each in above)
        return next((argument for argument in found if argument), None)


class Loading:
    """What a config holds so far, and what its loader refuses or ignores."""

    def __init__(self, schema: "Schema") -> None:
        self.schema = schema
        self.values: dict[str, Any] = {}
        self.written: set[str] = set()
        self.faults: list[Fault] = []

    @cached_property
    def hints(self) -> "Hints":
        """What was probably meant by keys and values that are refused."""
        from fp8tune.trainers.hints import Hints  # a right config needs none

        return Hints(self.schema)

    def fault(self, kind: str, path: Path, **facts: Any) -> None:
        """Note a fault; of more than a thousand the rest is dropped."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(kind, path, {"key": dotted(path), **facts}))

    @property
    def loaded(self) -> Loaded:
        """The config as the trainer holds it."""
        return Loaded(self.values, self.written, self.faults)

    def meant(self, path: Path, keys: Collection[str] = ()) -> dict[str, Any]:
        """Return the facts of an unknown key that say which one was meant."""
        from fp8tune.trainers.hints import key_meant

        hint = self.hints.for_key(path, keys) if len(self.faults) < HINTS else ""
        return {"hint": hint, **key_meant(hint, path, keys)}

    def not_allowed(
        self,
        path: Path,
        value: Any,
        allowed: Iterable[Any],
        hint: str,
        kind: str = "value-not-allowed",
    ) -> None:
        """Note a value that is none of those allowed, with the one that was meant."""
        from fp8tune.trainers.hints import value_meant

        facts = {"allowed": allowed, "hint": hint, **value_meant(hint, value)}
        self.fault(kind, path, value=value, **facts)

    def not_allowed_by(
        self, spec: "Key", path: Path, value: Any, kind: str = "value-not-allowed"
    ) -> None:
        """Note a value that is none of those that its key allows."""
        hint = self.hints.for_value(spec, value)
        self.not_allowed(path, value, spec.allowed, hint, kind)


def dotted(path: Path) -> str:
    """A path as people write it: ``data.datasets[0].weight``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
