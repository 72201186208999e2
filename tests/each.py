"""One test over many cases. It names every case that fails, not only the first."""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

SHOWN = 20
"""Failures that are shown with their traceback; the others by name alone."""


def each(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    ids: Callable[[Any], str] | Iterable[Any] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on every case, as ``pytest.mark.parametrize`` does, but as one test.

    A test for each of 243 rules costs seconds of pytest's own work; a loop does not.
    Fixtures are set up once for all cases.
    """
    own = names if isinstance(names, tuple) else (names,)
    cases = list(cases)
    ids = _label if ids is None else ids
    labels = list(map(ids, cases)) if callable(ids) else list(map(str, ids))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run_all(**fixtures: Any) -> None:
            failures = []
            for label, case in zip(labels, cases, strict=True):
                values = case if isinstance(names, tuple) else (case,)
                try:
                    test(**fixtures, **dict(zip(own, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    last = "".join(traceback.format_exception(error, limit=-2))
                    failures.append((label, last))
            if failures:
                said = [f"{label}\n{last}" for label, last in failures[:SHOWN]]
                said += [label for label, _ in failures[SHOWN:]]
                head = f"{len(failures)} of {len(cases)} cases fail:\n\n"
                pytest.fail(head + "\n".join(said), pytrace=False)

        assert cases, "nothing to test"
        functools.update_wrapper(run_all, test)
        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in own]
        run_all.__signature__ = signature.replace(parameters=left)
        return run_all

    return decorate


def _label(case: Any) -> str:
    parts = case if isinstance(case, tuple) else (case,)
    return ", ".join(str(getattr(part, "name", repr(part)))[:80] for part in parts)
