"""Latencies of the sandbox back ends: box ready, one command, files, changes, close; one by one and at once.

    python benchmarks/sandbox_latency.py [--backend local] [--backend docker] [--boxes 64] [--commands 200]

Without `--backend` all that work here. The first box of a work tree on a Docker daemon also makes images; its
time is told apart. The second claim: the time until all of `--boxes` boxes, opened from as many threads, have
answered.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from sandbox import BACKENDS, BoxLimits, BoxSpec, open_sandbox
from sandbox.paths import remove_tree
from sandbox.rootfs import ensure_rootfs
from sandbox.selftest import probe
from sandbox.snapshot import snapshot_tree

LIMITS = BoxLimits(wall_s=600, command_s=60, memory_mb=256, processes=64, disk_mb=64, output_bytes=20_000)


def _clock(action: object) -> float:
    started = time.perf_counter()
    action()  # type: ignore[operator]
    return (time.perf_counter() - started) * 1000


def _line(name: str, times: list[float]) -> str:
    times = sorted(times)
    high = times[min(len(times) - 1, int(len(times) * 0.95))]
    return f"{name:<28} p50 {statistics.median(times):8.2f} ms   p95 {high:8.2f} ms   n {len(times)}"


def one_after_another(backend: str, spec: BoxSpec, boxes: int, commands: int) -> list[str]:
    ready, first, execs, close = [], [], [], []
    writes, reads, freezes, changes = [], [], [], []
    for i in range(boxes):
        started = time.perf_counter()
        box = open_sandbox(backend, spec)
        ready.append((time.perf_counter() - started) * 1000)
        first.append(_clock(lambda box=box: box.exec("true")))
        if i == 0:
            execs = [_clock(lambda box=box: box.exec("true")) for _ in range(commands)]
        writes.append(_clock(lambda box=box: box.write("/repo/new", bytes(10_000))))
        reads.append(_clock(lambda box=box: box.read("/repo/new", max_bytes=10_000)))
        freezes.append(_clock(box.freeze))
        changes.append(_clock(box.changes))
        close.append(_clock(box.close))
    return [
        _line("box ready", ready),
        _line("first command", first),
        _line("command", execs),
        _line("write of 10 kB", writes),
        _line("read of 10 kB", reads),
        _line("freeze", freezes),
        _line("changes", changes),
        _line("close", close),
    ]


def all_at_once(backend: str, spec: BoxSpec, boxes: int) -> list[str]:
    def open_and_answer(_: int) -> object:
        box = open_sandbox(backend, spec)
        assert box.exec("echo up").output == "up\n"
        return box

    started = time.perf_counter()
    with ThreadPoolExecutor(boxes) as pool:
        opened = list(pool.map(open_and_answer, range(boxes)))
        up = time.perf_counter() - started
        times = list(pool.map(lambda box: _clock(lambda: box.exec("true")), opened * 10))
        started = time.perf_counter()
        list(pool.map(lambda box: box.close(), opened))
    return [
        f"{boxes} boxes at once: up after {up:.2f} s, closed in {time.perf_counter() - started:.2f} s",
        _line("command, all at once", times),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", action="append", choices=sorted(BACKENDS))
    parser.add_argument("--one-by-one", type=int, default=30, help="boxes opened one after another")
    parser.add_argument("--boxes", type=int, default=64)
    parser.add_argument("--commands", type=int, default=200)
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="mimo-bench-"))
    try:
        (work / "tree").mkdir()
        (work / "tree/a.txt").write_text("a\n")
        started = time.perf_counter()
        rootfs = ensure_rootfs(work / "roots")
        print(f"root file system built in {time.perf_counter() - started:.1f} s")
        snapshot = work / "snapshots" / snapshot_tree(work / "tree", work / "snapshots")
        spec = BoxSpec(
            rootfs=rootfs, snapshot=snapshot, workdir="/repo", limits=LIMITS, state_dir=work / "state"
        )
        spec = replace(spec, label="bench")
        for backend in given.backend or sorted(BACKENDS):
            able = probe(backend)
            print(f"\n{backend}: {able.details if able.ok else able.reason}")
            if not able.ok:
                continue
            first = _clock(lambda backend=backend: open_sandbox(backend, spec).close())
            print(f"first box and its close, images included: {first:.0f} ms")
            for line in one_after_another(backend, spec, given.one_by_one, given.commands):
                print(line)
            for line in all_at_once(backend, spec, given.boxes):
                print(line)
    finally:
        remove_tree(work)


if __name__ == "__main__":
    main()
