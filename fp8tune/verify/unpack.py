"""The bytes of a trace or log: plain, in gzip or in a zip archive, block by block."""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

BLOCK = 1 << 20
"""Bytes that are read at a time."""
LIMIT = 8 << 30
"""Unpacked bytes that are read of one file: more than any trace, less than a bomb."""
_LAYERS = 3
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_ENDINGS = (".json", ".json.gz", ".log")


class Blocks:
    """The bytes of a file in blocks; what is packed is unpacked on the way.

    Damaged data end them; ``cut`` then says why, else it is ``""``.
    """

    def __init__(self, file: IO[bytes], limit: int = LIMIT) -> None:
        self.cut = ""
        self._file = file
        self._limit = limit

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for data in self._bytes(self._file):
            size += len(data)
            if size > self._limit:
                self.cut = f"only the first {self._limit >> 20:,} MiB were read"
                return
            yield data

    def _bytes(self, file: IO[bytes]) -> Iterator[bytes]:
        import lzma
        import zipfile

        try:
            stream = self._unpacked(file)
            while data := self._block(stream):
                yield data
        except (EOFError, zlib.error, lzma.LZMAError):
            self.cut = "the packed data end early or are damaged"
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            self.cut = f"not a readable zip archive: {error}"
        except OSError as error:
            self.cut = f"not readable: {error.strerror or error}"

    def _block(self, stream: Any) -> bytes:
        """Return the next block; what was read before an error comes first."""
        parts: list[bytes] = []
        size = 0
        while size < BLOCK:
            try:
                part = stream.read1(BLOCK - size)
            except Exception:
                if parts:
                    break  # the next call raises it again
                raise
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def _unpacked(self, file: IO[bytes]) -> IO[bytes]:
        stream = cast(io.BufferedReader, file)
        for _ in range(_LAYERS):
            magic = stream.peek(4)[:4]
            if magic.startswith(_GZIP):
                import gzip

                stream = cast(
                    io.BufferedReader, gzip.GzipFile(fileobj=stream, mode="rb")
                )
            elif magic == _ZIP:
                stream = self._member(stream)
            else:
                break
        return stream

    def _member(self, file: IO[bytes]) -> io.BufferedReader:
        """Open the first trace of a zip archive."""
        import zipfile

        archive = zipfile.ZipFile(file)
        names = sorted(each.filename for each in archive.infolist())
        names = [name for name in names if name.endswith(_ENDINGS)]
        if not names:
            raise zipfile.BadZipFile(f"no file that ends in {', '.join(_ENDINGS)}")
        if len(names) > 1:
            self.cut = f"{len(names)} files in the archive, only the first was read"
        return io.BufferedReader(cast(io.RawIOBase, archive.open(names[0])))


class Text(Blocks):
    """The same as text; bytes that are no UTF-8 become replacement characters."""

    def text(self) -> Iterator[str]:
        """Yield the text in blocks."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        for number, data in enumerate(self):
            if not number and b"\0" in data[:4096]:
                self.cut = "binary data"
                return
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)
