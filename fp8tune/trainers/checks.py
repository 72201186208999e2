"""What a trainer refuses of values that do not fit together: its ``checks.toml``.

Each entry ``[[check]]`` is one check: the ``keys`` to blame, the condition ``when`` on
the values, the ``reason`` with names in braces, maybe a ``hint``, the releases
``since`` and ``until`` that have it, the config classes ``in`` which it is, and the
``fault`` of ``trainer.toml`` if it is not ``refused-settings``. A check is looked at
where the file writes one of its ``keys``; with ``absent = true`` always.

Conditions are in the language of the rules. ``defined(x)`` is false for null; ``text``,
``whole``, ``number``, ``switch`` and ``table`` tell kinds of values. Expressions of
``[names]`` are further names. ``cannot`` is the reason where a value of another kind
ends the trainer's own check; without it such a check says nothing.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
import re
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from fp8tune.conditions.expression import Expression, compile_expression
from fp8tune.job import Prose, Unknown
from fp8tune.trainers.faults import Fault
from fp8tune.trainers.schema import Schema
from fp8tune.words import shown

Derived = Mapping[str, Callable[["Values"], Any]]
"""Names that no expression can say, by the functions that compute them."""

ON_SCOPE: dict[str, Callable[[Any, str], bool]] = {
    "defined": lambda scope, name: scope[name] is not None,
    "text": lambda scope, name: isinstance(scope[name], str),
    "whole": lambda scope, name: isinstance(scope[name], int),
    "number": lambda scope, name: isinstance(scope[name], (int, float)),
    "switch": lambda scope, name: isinstance(scope[name], bool),
    "table": lambda scope, name: isinstance(scope[name], dict),
}


def _told(value: Any) -> str:
    return shown(value) if type(value) in (int, list) else str(value)


class Refusal(NamedTuple):
    """Keys to blame, why their values are refused, maybe what to do, and the fault."""

    keys: list[str]
    reason: str
    hint: str
    fault: str = "refused-settings"


class Values(dict[str, Any]):
    """The values of a config, those of tables by dotted names, and what follows."""

    def __init__(self, values: Mapping[str, Any], derived: Derived) -> None:
        super().__init__()
        self.values_of_file = values
        self.derived = derived

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._value(name)
        return value

    def _value(self, name: str) -> Any:
        if name in self.derived:
            try:
                return self.derived[name](self)
            except (TypeError, ValueError) as error:
                raise Unknown(name) from error
        table, dot, key = name.rpartition(".")
        if not dot or name in self.values_of_file:
            return self.values_of_file[name]
        values = self[table]
        return values.get(key) if isinstance(values, dict) else None


def conditions(schema: dict[str, Any]) -> Iterator[str]:
    """Yield all expressions of the checks of a schema, as its file says it."""
    checks = schema.get("checks", {})
    yield from checks.get("names", {}).values()
    yield from (check["when"] for check in checks.get("check", ()))


class Checks:
    """The checks of one release of a trainer."""

    def __init__(self, schema: Schema, derived: Derived | None = None) -> None:
        self.by_class: dict[str, list[dict[str, Any]]] = {}
        for check in schema.checks.get("check", ()):
            for name in check.get("in", [""]):
                self.by_class.setdefault(name, []).append(check)
        self.cannot: str = schema.checks.get("cannot", "")
        self.derived = {**(derived or {})}
        for name, source in schema.checks.get("names", {}).items():
            self.derived[name] = partial(self._value_of, source)
        self.compiled: dict[str, Expression] = {}

    def _value_of(self, source: str, values: Values) -> Any:
        return self._of(source).evaluate(values)

    def _of(self, source: str) -> Expression:
        if source not in self.compiled:
            self.compiled[source] = compile_expression(source, lambda _: True, ON_SCOPE)
        return self.compiled[source]

    def refused(
        self, values: Mapping[str, Any], written: Container[str], name: str = ""
    ) -> Iterator[Refusal]:
        """Yield the checks that fail, of one config class where they are of classes.

        A check that reads a name which ``values`` lacks says nothing.
        """
        scope = Values(values, self.derived)
        for check in self.by_class.get(name, ()):
            keys = check["keys"]
            if not check.get("absent") and not any(key in written for key in keys):
                continue
            try:
                if not self._value_of(check["when"], scope):
                    continue
                reason = re.sub(
                    r"{([\w.]+)}", lambda m: _told(scope[m[1]]), check.get("reason", "")
                )
            except KeyError:
                continue
            except Unknown:
                if self.cannot:
                    yield Refusal(keys, self.cannot, "")
                continue
            fault = {"fault": check["fault"]} if "fault" in check else {}
            yield Refusal(keys, reason, check.get("hint", ""), **fault)

    def refusals(
        self, values: Mapping[str, Any], written: Container[str]
    ) -> Iterator[Fault]:
        """Yield a fault for each check that fails, at the first key that is written."""
        for keys, reason, hint, kind in self.refused(values, written):
            key = next((key for key in keys if key in written), keys[0])
            facts = {"key": key, "reason": Prose(reason), "hint": Prose(hint)}
            yield Fault(kind, (*key.split("."),), facts)
