"""Safe outputs: written beside the target under a partial name, renamed when all is well.

Nothing incomplete ever stands under the final name.  Where the work ends with an exception, the partial
file stays beside (complete up to its last record, a compressed stream properly ended) and ``Sink.partial``
names it, as a note of the exception does.  A format that cannot be read without its end leaves nothing.
"""

from __future__ import annotations

import gzip
import itertools
import os
import stat
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import OutputError, OutputExistsError

_BUFFER_OCTETS = 1 << 20
_MAX_LINKS = 40


class Sink:
    """An output opened by ``open_sink``: a context manager that commits on success only."""

    def __init__(
        self,
        path: str,
        file: Any,
        *,
        final: str = "",
        partial: str = "",
        force: bool = False,
        whole: bool = False,
    ) -> None:
        self.path = path
        self.partial = partial
        """The partial file's name; empty for stdout, devices and pipes, and once it was renamed."""
        self.octets = 0
        self._flushed_octets = 0
        self._final = final
        self._force = force
        self._whole = whole
        self._raw = file
        self._file = _compressing(file, path)
        self._closed = False

    def write(self, data: bytes | memoryview | NDArray[np.uint8] | str) -> None:
        """Write octets, or text where the sink was opened for text; OutputError when there is no room."""
        if isinstance(data, np.ndarray):
            data = data.data
        octets = data.encode() if isinstance(data, str) else data
        try:
            self._file.write(octets)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error, f"room for {len(octets)} octets") from error
        self.octets += len(octets)

    def flush(self) -> None:
        """Push what was written out, for who reads the other end; compressed, it can be read that far."""
        if self._flushed_octets == self.octets:
            return  # a compressor would add an empty block
        try:
            self._file.flush()
            self._raw.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error, "room for what was written") from error
        self._flushed_octets = self.octets

    def commit(self) -> None:
        """Finish the output and give it its final name."""
        if self._closed:
            return
        self._end()
        if not self.partial:
            return
        if not self._force and os.path.lexists(self._final):
            raise _exists(self.path)
        try:
            os.replace(self.partial, self._final)
        except OSError as error:
            raise self._failed(error, "to rename the finished output") from error
        self.partial = ""

    def abandon(self, error: BaseException | None = None) -> None:
        """End the output where it is; what became of it is a note of ``error``.

        A partial file that is empty, or worth nothing without its end, is removed; any other stays as
        ``partial``.
        """
        if self._closed:
            return
        with suppress(OutputError):  # what ended the work says more
            self._end()
        if not self.partial:
            return
        note = f"what was written before is in {self.partial}"
        if self._whole or not self.octets:
            os.unlink(self.partial)
            self.partial = ""
            note = f"{self.path} cannot be read without its end: what was written of it was removed"
        if error is not None and self.octets:
            error.add_note(note)

    def _end(self) -> None:
        self._closed = True
        try:
            if self._file is not self._raw:
                self._file.close()
            self._raw.flush()
            if self._raw is not getattr(sys.stdout, "buffer", None):
                self._raw.close()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error, "room for the end of the output") from error

    def _failed(self, error: OSError, needed: str) -> OutputError:
        got = error.strerror or str(error)
        return OutputError(path=self.path, needed=needed, got=got)

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.abandon(error)


def open_sink(path: str | os.PathLike[str], *, force: bool = False, whole: bool = False) -> Sink:
    """Open an output: a path, or ``-`` for stdout; a path that ends in .gz or .zst is compressed.

    An existing regular file is refused unless ``force``; devices and pipes are written directly.  ``whole``
    is for formats that cannot be read without their end: no partial file of theirs stays.
    Raises OutputError when it cannot be written.
    """
    name = os.fspath(path)
    if name == "-":
        return Sink("-", sys.stdout.buffer)
    try:
        return _open(name, force, whole)
    except OSError as error:
        got = error.strerror or str(error)
        raise OutputError(path=name, needed="a writable output", got=got) from error
    except ValueError as error:
        raise OutputError(path=name, needed="the name of a file", got=str(error)) from None


def check_sink(path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Raise OutputError where `open_sink` would, before the work is done; nothing is left behind."""
    name = os.fspath(path)
    # a device or a pipe is opened once: who reads its other end would take the first closing for the end
    if name != "-" and (os.path.isfile(name) or os.path.isdir(name) or not os.path.exists(name)):
        open_sink(name, force=force).abandon()


def _open(name: str, force: bool, whole: bool) -> Sink:
    final = os.path.realpath(name)  # a link to the target stays a link
    mode = os.stat(final).st_mode if os.path.exists(final) else None
    if mode is not None and stat.S_ISDIR(mode):
        raise OutputError(path=name, needed="the name of a file", got="a directory")
    if mode is not None and not stat.S_ISREG(mode):
        return Sink(name, open(final, "wb", buffering=_BUFFER_OCTETS))
    if mode is not None and not force:
        raise _exists(name)
    if not force and _leads_elsewhere(name):
        needed = "a name that is free, or --force to create what a link names"
        raise OutputError(path=name, needed=needed, got="another user's link")
    file, partial = _beside(final)
    if mode is not None:
        os.fchmod(file.fileno(), stat.S_IMODE(mode))
    return Sink(name, file, final=final, partial=partial, force=force, whole=whole)


def _leads_elsewhere(name: str) -> bool:
    """Return whether a link on the way to an output is neither this user's nor root's."""
    trusted = (os.geteuid(), 0)
    for _ in range(_MAX_LINKS):
        if not os.path.islink(name):
            return False
        if os.lstat(name).st_uid not in trusted:
            return True
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    return True


def _beside(final: str) -> tuple[Any, str]:
    """Open a partial file that no other process and no earlier attempt of this one holds."""
    for attempt in itertools.count():
        partial = f"{final}.{os.getpid()}{f'-{attempt}' if attempt else ''}.partial"
        with suppress(FileExistsError):
            return open(partial, "xb", buffering=_BUFFER_OCTETS), partial
    raise AssertionError  # count() has no end


def _exists(name: str) -> OutputError:
    return OutputExistsError(path=name, needed="a name that is free", got="a file of that name")


def _compressing(file: Any, path: str) -> Any:
    if path.endswith(".gz"):
        # No name and no time: the same frames give the same octets.
        return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)
    if path.endswith(".zst"):
        import zstandard

        return zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)
    return file
