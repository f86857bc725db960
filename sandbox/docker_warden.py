"""A bash in every container, of the box's own user, that kills, counts, reads and writes on our order.

It starts no program to kill or to count, so that it works in a box at its process limit. It runs from the
unreadable copy of bash; the box's own processes may kill or stop it, no more: a warden that does not answer
ends the box's processes.
"""

from __future__ import annotations

import base64
import errno
import os
import secrets
import threading
import time
from typing import Literal

from sandbox.docker_stream import Stream
from sandbox.errors import SandboxFileError, SandboxLost

_ANSWER_S = 5.0
_FILE_S = 60.0
_CODES = {
    "Permission denied": errno.EACCES,
    "Read-only file system": errno.EROFS,
    "No such file or directory": errno.ENOENT,
    "Is a directory": errno.EISDIR,
    "Not a directory": errno.ENOTDIR,
    "No space left on device": errno.ENOSPC,
    "Too many levels of symbolic links": errno.ELOOP,
    "File name too long": errno.ENAMETOOLONG,
    "not a regular file": errno.EINVAL,
}

WARDEN = r"""
exec 2>/dev/null
export LC_ALL=C PATH=/usr/local/bin:/usr/bin:/bin
umask 022
count() {
    local line oom=- forks=- where=/sys/fs/cgroup
    for at in $where/memory.events $where/memory/memory.oom_control; do
        [ -r $at ] && while read -r name value; do [ "$name" = oom_kill ] && oom=$value; done < $at
    done
    for at in $where/pids.events $where/pids/pids.events; do
        [ -r $at ] && while read -r name value; do [ "$name" = max ] && forks=$value; done < $at
    done
    printf '%s %s\0' "$oom" "$forks"
}
ticks_at() {
    local up now=${EPOCHREALTIME/[.,]/}
    IFS=' ' read -r up _ < /proc/uptime
    ticks=$(( 10#${up/./} - (now - 10#$1) / 10000 - 1 ))
}
find_others() {
    local place line field
    found=()
    for place in /proc/[0-9]*; do
        line=
        IFS= read -r -d '' line < $place/stat
        [ -n "$line" ] || continue
        set -f; field=(${line##*) }); set +f
        pid=${place#/proc/}
        if [ "${field[1]}" = 0 ] && [ $pid != 1 ] && [ $pid != $$ ]; then supervisor=$pid; continue; fi
        [ "${field[0]}" = Z ] || [ $pid = 1 ] || [ $pid = $$ ] || found+=("$pid ${field[1]} ${field[19]}")
    done
}
end_since() {
    local tries hit entry pid parent start supervisor ticks=0
    [ "$1" = 0 ] || ticks_at "$1"
    for (( tries = 0; tries < 100; tries++ )); do
        hit=0
        find_others
        for entry in "${found[@]}"; do
            pid=${entry%% *} start=${entry##* } parent=${entry#* } parent=${parent%% *}
            if (( start >= ticks )) || [ "$parent" = "$supervisor" ]; then kill -9 $pid && hit=1; fi
        done
        [ $hit = 0 ] && { printf 'done\0'; return; }
    done
    printf 'left\0'
}
real_path() {
    real=$(realpath -m -- "$1" 2>&1 && echo .) || { printf '%s\0' "${real##*: }"; return 1; }
    real=${real%$'\n'.}
    case $real in
        /proc|/proc/*|/sys|/sys/*) printf 'Permission denied\0'; return 1 ;;
    esac
    [ -e "$real" ] && [ ! -f "$real" ] && { printf 'not a regular file\0'; return 1; }
    return 0
}
read_file() {
    real_path "$1" || return
    : 2>&1 < "$real" || { why "$( { : < "$real"; } 2>&1 )"; return; }
    printf 'ok\0'; head -c "$2" < "$real" | base64 -w 0; printf '\0'
}
write_file() {
    local wrong
    real_path "$1" || { head -c "$2" >/dev/null; return; }
    wrong=$( { mkdir -p -- "${real%/*}/" && : >> "$real"; } 2>&1 ) || {
        head -c "$2" >/dev/null; why "$wrong"; return
    }
    wrong=$( { head -c "$2" > "$real"; } 2>&1 ) && printf 'ok\0' || why "$wrong"
}
why() { printf '%s\0' "${1##*: }"; }
while IFS= read -r -d '' order && IFS= read -r -d '' token; do
    printf '%s\0' "$token"
    case $order in
        count) count ;;
        end) IFS= read -r -d '' a; end_since "$a" ;;
        read) IFS= read -r -d '' a; IFS= read -r -d '' b; read_file "$a" "$b" ;;
        write) IFS= read -r -d '' a; IFS= read -r -d '' b; write_file "$a" "$b" ;;
    esac
    printf '%s\0' "$token"
done
"""


class Warden:
    """Our side of it, for any thread."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        """Whether it has gone, or answered wrongly."""
        if not self._stream.ended and self._lock.acquire(blocking=False):
            try:
                self._stream.exchange(memoryview(b""), 0)  # an idle warden says nothing: only its end shows
            finally:
                self._lock.release()
        return self._stream.ended

    def hits(self, *, wait: bool = True) -> dict[Literal["memory", "processes"], int] | None:
        """How often the kernel killed for memory and refused a process so far; None where it cannot be told.

        Args:
            wait: for an order in progress; otherwise the answer is None then.
        """
        answer = self._ask([b"count"], timeout_s=_ANSWER_S, wait=wait)
        if answer is None:
            return None
        memory, processes = answer[0].split()
        return {
            "memory": int(memory) if memory.isdigit() else 0,
            "processes": int(processes) if processes.isdigit() else 0,
        }

    def end_since(self, since: str) -> bool:
        """Kill the shell and what started since then (the box's own clock; empty: everything); whether all
        died."""
        digits = since.replace(".", "").replace(",", "")
        moment = digits if digits.isdigit() and digits.isascii() and 14 <= len(digits) <= 18 else "0"
        return self._ask([b"end", moment.encode()], timeout_s=_ANSWER_S) == [b"done"]

    def read(self, path: str, max_bytes: int) -> bytes:
        """The first bytes of a regular file, as the box's user may see it."""
        answer = self._file_answer([b"read", os.fsencode(path), str(max_bytes).encode()], path)
        return base64.b64decode(answer[1])

    def write(self, path: str, data: bytes) -> None:
        """Put `data` at `path`, making folders as needed, as the box's user would."""
        self._file_answer([b"write", os.fsencode(path), str(len(data)).encode()], path, data)

    def _file_answer(self, words: list[bytes], path: str, data: bytes = b"") -> list[bytes]:
        answer = self._ask(words, data, timeout_s=_FILE_S)
        if answer is None:
            raise SandboxLost("the box does not answer", hint="its next command starts it again")
        said = answer[0].decode(errors="replace").strip() if answer else ""
        if said != "ok":
            raise SandboxFileError(f"{path}: {said or 'not possible'}", code=_CODES.get(said, errno.EIO))
        return answer

    def _ask(
        self, words: list[bytes], data: bytes = b"", *, timeout_s: float, wait: bool = True
    ) -> list[bytes] | None:
        """The fields of the answer; None if it has gone, is busy, or said anything else."""
        if not self._lock.acquire(blocking=wait):
            return None
        try:
            return self._talk(words, data, time.monotonic() + timeout_s)
        finally:
            self._lock.release()

    def _talk(self, words: list[bytes], data: bytes, deadline: float) -> list[bytes] | None:
        token = secrets.token_hex(8).encode()
        order = b"".join(word + b"\0" for word in (words[0], token, *words[1:]))
        pending, said = memoryview(order + data), bytearray()
        while not self._stream.ended:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            pending, pieces = self._stream.exchange(pending, left)
            for piece in pieces:
                said += piece.data
            if said.endswith(b"\0" + token + b"\0") and len(said) > 2 * len(token) + 2 - 1:
                start, *fields = bytes(said).split(b"\0")[:-2]
                if start == token:
                    return fields
                break
        self._stream.ended = True
        return None

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
