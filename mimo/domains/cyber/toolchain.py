"""The compiler behind cyber tasks: what must be installed, and the build of a program in a box of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mimo.domains.cyber.generated.plant import Language
from mimo.domains.cyber.runtime import PROGRAM
from mimo.errors import MachineLacks, RecipeError
from sandbox import open_sandbox
from sandbox.base import BoxLimits, BoxSpec
from sandbox.build_root import build_root

DRIVERS: dict[Language, str] = {"c": "gcc -std=gnu11", "c++": "g++ -std=gnu++17"}
FLAGS = (
    "-O0 -g -fno-inline -fno-omit-frame-pointer -fno-common -w "
    "-fsanitize=address,undefined -fno-sanitize-recover=all "
    "-static-libasan -static-libubsan -static-libgcc "
    "-frandom-seed=mimo -ffile-prefix-map=/work=. -Wl,--build-id=none"
)
"""Without optimisation frames are what the source says. Static runtimes: the program needs no library of ours
in a box, and none can be put under it."""
LIBRARIES = ("libasan.a", "libubsan.a", "libstdc++.a")
WORKDIR = "/work"
_LIMITS = BoxLimits(
    wall_s=180.0, command_s=120.0, memory_mb=1536, processes=64, disk_mb=256, output_bytes=16_384
)
_MAX_PROGRAM_BYTES = 32_000_000


def missing_parts() -> str | None:
    """What of the compiler is not on this machine, or None."""
    for program in ("gcc", "g++"):
        place = shutil.which(program, path="/usr/bin:/bin")
        if place is None:
            return f"{program} (in /usr/bin)"
    for library in LIBRARIES:
        if not Path(_asked(f"-print-file-name={library}")).is_absolute():
            return f"{library} of gcc {_asked('-dumpfullversion')}"
    return None


def debian_package(missing: str) -> str:
    """The Debian package that holds a missing part."""
    if not missing.startswith("lib"):
        return "g++"
    major = _asked("-dumpversion").split(".")[0]
    return f"libstdc++-{major}-dev" if missing.startswith("libstdc++") else f"libgcc-{major}-dev"


@cache
def require_toolchain() -> None:
    """Nothing, if programs can be built here (asked once a process).

    Raises:
        MachineLacks: gcc, g++ or the sanitizers' libraries are missing; names the Debian package.
    """
    missing = missing_parts()
    if missing is not None:
        raise MachineLacks(
            f"cyber tasks are built with AddressSanitizer, and this machine has no {missing}",
            hint=f"Debian's package is {debian_package(missing)} (as root: make system); or leave the cyber "
            "sources out of tasks.sources",
        )


def build_program(tree: Path, sources: Sequence[str], language: Language, cache_dir: Path) -> bytes:
    """The program built from `sources` (paths in `tree`) in a box with a compiler and without a network.

    Raises:
        RecipeError: the sources do not compile; the compiler's words are in the message.
        MachineLacks: no compiler or no sanitizer here.
        SandboxError: the box could not be opened.
    """
    require_toolchain()
    rootfs, mounts = build_root(cache_dir)
    spec = BoxSpec(rootfs=rootfs, snapshot=tree, workdir=WORKDIR, limits=_LIMITS, readonly=mounts)
    static = " -static-libstdc++" if language == "c++" else ""
    command = f"mkdir -p bin && {DRIVERS[language]} {FLAGS}{static} -o {PROGRAM} {' '.join(sources)}"
    with open_sandbox("local", spec) as box:
        result = box.exec(command)
        box.freeze()
        changes = box.changes(max_bytes=_MAX_PROGRAM_BYTES)
    built = {change.path: change.data for change in changes.files}.get(PROGRAM)
    if result.exit_code != 0 or built is None:
        why = result.limit or ("timeout" if result.timed_out else result.output.strip()[:400])
        raise RecipeError(f"the program does not build (exit {result.exit_code}): {why}")
    return built


def _asked(question: str) -> str:
    found = subprocess.run(
        ["/usr/bin/gcc", question], capture_output=True, text=True, check=False, timeout=30
    )
    return found.stdout.strip()
