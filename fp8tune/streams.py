"""Survive the loss of stdout or stderr: closed terminal, ended reader, full disk."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, NamedTuple, TextIO, cast

GONE = (errno.EPIPE, errno.EIO)
"""Errors of writing when the pipe's reader or the terminal is gone."""


def width_of(out: TextIO) -> int:
    """Return the columns of a terminal, 0 for any other stream."""
    import shutil  # lint needs no width

    return max(20, shutil.get_terminal_size().columns) if out.isatty() else 0


class Lasting:
    """A stream that discards its output once writing fails, instead of raising.

    ``tell`` is called once when the reader is gone.
    """

    def __init__(self, stream: TextIO, tell: Callable[[], object]) -> None:
        self._stream, self._tell = stream, tell
        self.lost: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the wrapped stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write; discard from now on if that fails."""
        with self._until_lost():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush; discard from now on if that fails."""
        with self._until_lost():
            self._stream.flush()

    @contextmanager
    def _until_lost(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            discard(self._stream)
            first, self.lost = self.lost is None, error
            if first and error.errno in GONE:
                self._tell()


class Streams(NamedTuple):
    """Stdout and stderr inside ``lasting``."""

    out: Lasting
    err: Lasting

    @property
    def odd(self) -> str:
        """Why output was lost although its reader is still there, else ``""``."""
        for name, stream in (("stdout", self.out), ("stderr", self.err)):
            if stream.lost and stream.lost.errno not in GONE:
                return f"cannot write to {name}: {stream.lost.strerror}"
        return ""


@contextmanager
def lasting(note: str) -> Iterator[Streams]:
    """Keep running if stdout or stderr is lost; flush both at the end.

    ``note`` is printed on stderr when the reader of stdout is gone.
    """
    err = Lasting(sys.stderr, lambda: None)
    stderr = cast(TextIO, err)
    out = Lasting(sys.stdout, lambda: print(note, file=stderr, flush=True))
    streams = Streams(out, err)
    with ExitStack() as held:
        for stream in streams:
            held.callback(stream.flush)
        held.enter_context(redirect_stdout(cast(TextIO, streams.out)))
        held.enter_context(redirect_stderr(cast(TextIO, streams.err)))
        yield streams


def discard(stream: TextIO) -> None:
    """Discard what is left in a stream, so that closing it cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
