"""One attached program of a container: its input, and its two outputs told apart."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import NamedTuple

_READ_BYTES = 1 << 18
_HEADER = 8
OUT, ERR = 1, 2
"""Which output a piece came from."""


class Piece(NamedTuple):
    """Bytes of one output."""

    kind: int
    data: bytes


class Stream:
    """Our end of the connection. Not for several threads at once."""

    def __init__(self, connection: tuple[socket.socket, bytes]) -> None:
        """`connection`: what `Host.attach` gave."""
        self._socket, early = connection
        self._socket.setblocking(False)
        self._header = b""
        self._kind, self._left = 0, 0
        self.ended = False
        """Whether the program has ended or the daemon has gone."""
        self._early = self._split(early)

    def exchange(self, data: memoryview, timeout_s: float) -> tuple[memoryview, list[Piece]]:
        """What is still to be written, and what came meanwhile; returns at the first sign of either."""
        if self._early:
            pieces, self._early = self._early, []
            return data, pieces
        events = select.POLLIN | (select.POLLOUT if data else 0)
        poll = select.poll()
        poll.register(self._socket, events)
        ready = dict(poll.poll(max(0.0, timeout_s) * 1000)).get(self._socket.fileno(), 0)
        if data and ready & select.POLLOUT:
            data = self._write(data)
        pieces = self._read() if ready & ~select.POLLOUT else []
        return data, pieces

    def _write(self, data: memoryview) -> memoryview:
        try:
            return data[self._socket.send(data) :]
        except BlockingIOError:
            return data
        except OSError:
            self.ended = True
            return data[len(data) :]

    def _read(self) -> list[Piece]:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.ended = True
            return []
        return self._split(data)

    def _split(self, data: bytes) -> list[Piece]:
        """Docker frames both outputs: one byte which, three of nothing, four of length."""
        pieces = []
        view = memoryview(data)
        while view:
            if self._left == 0:
                wanted = _HEADER - len(self._header)
                self._header += bytes(view[:wanted])
                view = view[wanted:]
                if len(self._header) == _HEADER:
                    self._kind, self._left = self._header[0], int.from_bytes(self._header[4:], "big")
                    self._header = b""
                continue
            pieces.append(Piece(self._kind, bytes(view[: self._left])))
            took = len(pieces[-1].data)
            self._left -= took
            view = view[took:]
        return pieces

    def close(self) -> None:
        """Hang up; the program reads end of input."""
        self.ended = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
