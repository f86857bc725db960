"""Output that outlives its reader: a run whose terminal is closed, or whose pipe ends, is not broken by it.

Without this the first line written afterwards (EIO from a terminal, EPIPE from a pipe) would end the run in
the middle of a step, just when SIGHUP or Ctrl-C asks for a stop at the next safe point.
"""

from __future__ import annotations

import errno
import io
import os
import sys

from typing_extensions import Buffer

_GONE = (errno.EIO, errno.EPIPE)


def outlive_reader() -> None:
    """From now on standard output and error lose what nobody can read any more, instead of failing.

    Only the program's own streams: those that a test or a caller put in their place stay as they are.
    """
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        sys.stdout = _lasting(sys.stdout)
    if sys.stderr is sys.__stderr__ and sys.stderr is not None:
        sys.stderr = _lasting(sys.stderr)


def _lasting(stream: io.TextIOBase) -> io.TextIOWrapper:
    stream.flush()
    raw = _LastingFile(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=True,
        write_through=True,
    )


class _LastingFile(io.FileIO):
    """A file that turns into /dev/null when its reader is gone; other errors (a full disk) are raised."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes
