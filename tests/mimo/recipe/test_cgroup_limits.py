"""Limits of a container, read from trees as both versions of cgroups have them."""

from __future__ import annotations

from pathlib import Path

from mimo.recipe.cgroup_limits import core_limit, memory_limit


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def test_version_2_takes_the_least_of_all_groups_above(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroup"
    put(own, "0::/service/inner")
    put(root / "service" / "memory.max", str(4 * 2**30))
    put(root / "service" / "inner" / "memory.max", "max")
    put(root / "service" / "inner" / "cpu.max", "150000 100000")
    put(root / "cpu.max", "max 100000")
    assert memory_limit(root, own) == 4 * 2**30
    assert core_limit(root, own) == 1.5


def test_version_1(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroup"
    put(own, "5:memory:/box\n4:cpu,cpuacct:/box\n1:name=systemd:/box")
    put(root / "memory" / "box" / "memory.limit_in_bytes", str(2**31))
    put(root / "memory" / "memory.limit_in_bytes", "9223372036854771712")
    put(root / "cpu" / "box" / "cpu.cfs_quota_us", "50000")
    put(root / "cpu" / "box" / "cpu.cfs_period_us", "100000")
    assert memory_limit(root, own) == 2**31
    assert core_limit(root, own) == 0.5


def test_no_limit_and_no_cgroups(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroup"
    assert memory_limit(root, own) is None
    put(own, "0::/")
    put(root / "memory.max", "max")
    put(root / "cpu.max", "max 100000")
    assert memory_limit(root, own) is None
    assert core_limit(root, own) is None
