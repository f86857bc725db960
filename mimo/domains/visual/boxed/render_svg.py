"""Render one drawing in the verifier's box; print one line with the picture and the run's key.

The plan (JSON) comes on standard input: key, renderer (folder), drawing (path), width, height, cpu_s, wall_s,
memory_mb, max_bytes. A child that never saw the key does the rendering, with limits of its own; what it
writes to its pipe is data.
"""

import base64
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def load_libraries(folder: str) -> None:
    """Load what the renderer needs and the box may lack: the box's own where it has one, else ours."""
    for path in sorted(Path(folder).iterdir()):
        try:
            ctypes.CDLL(path.name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def render(place: dict[str, Any]) -> None:
    """The child: limits, the renderer's own folder and nothing else on the path, PNG to standard output."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (place["cpu_s"], place["cpu_s"]))
    space = place["memory_mb"] << 20
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    load_libraries(f"{place['renderer']}/lib")
    sys.path.insert(0, place["renderer"])
    import resvg_py

    with open(place["drawing"], encoding="utf-8") as file:
        drawing = file.read()
    png = resvg_py.svg_to_bytes(
        svg_string=drawing,
        background="white",
        width=place["width"],
        height=place["height"],
        skip_system_fonts=True,
    )
    sys.stdout.buffer.write(png)
    sys.stdout.buffer.flush()
    os._exit(0)  # no clean-up of a library that has just worked on foreign input


def rendered(place: dict[str, Any], max_bytes: int, wall_s: float) -> tuple[bytes, str | None]:
    """What the child wrote, and why it is no picture if it is none."""
    command = [sys.executable, "-I", "-S", "-B", __file__, json.dumps(place)]
    with open("/tmp/picture", "w+b") as out, open("/tmp/words", "w+b") as words:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=words, start_new_session=True
        )
        end = time.monotonic() + wall_s
        while child.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        slow = child.poll() is None
        if slow:
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        out.seek(0)
        words.seek(0)
        picture, said = out.read(max_bytes + 1), words.read(4096).decode("utf-8", "replace").strip()
    if slow or code == -signal.SIGXCPU:
        return b"", "rendering took too long"
    if code != 0:
        return b"", f"the renderer refuses it: {said.splitlines()[-1][:200] if said else f'exit {code}'}"
    if len(picture) > max_bytes:
        return b"", f"the picture has more than {max_bytes} bytes"
    return picture, None


def main() -> None:
    """One run."""
    plan = json.load(sys.stdin)
    key, max_bytes, wall_s = plan.pop("key"), plan.pop("max_bytes"), plan.pop("wall_s")
    picture, error = rendered(plan, max_bytes, wall_s)
    body = json.dumps({"picture": base64.b64encode(picture).decode(), "error": error})
    print(f"\n{key} {body}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        render(json.loads(sys.argv[1]))
    else:
        main()
