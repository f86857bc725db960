"""A root for boxes that build: the host's /usr, read-only, over an empty root; nothing else of the host.

For code whose programs we make ourselves, before a policy is near. The host's compilers come with headers,
libraries and helper programs all over /usr, so this mounts the folder instead of picking files.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from sandbox.paths import remove_tree

_NAME = "build-root-1"
_FOLDERS = ("usr", "etc", "proc", "dev", "tmp")
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/bash\n",
    "group": "root:x:0:\nuser:x:1000:\n",
}


def build_root(store_dir: Path) -> tuple[Path, Mapping[str, Path]]:
    """`BoxSpec.rootfs` and `BoxSpec.readonly` of a build box; the folder is made once in `store_dir`."""
    final = store_dir / _NAME
    if not final.is_dir():
        store_dir.mkdir(parents=True, exist_ok=True)
        work = store_dir / f".work-{secrets.token_hex(4)}"
        try:
            _make(work)
            work.rename(final)
        except OSError:
            if not final.is_dir():
                raise
        finally:
            remove_tree(work)
    return final, {"/usr": Path("/usr")}


def _make(root: Path) -> None:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True)
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)
    for place in sorted(Path("/").iterdir()):
        if place.name in ("bin", "sbin") or place.name.startswith("lib"):
            (root / place.name).symlink_to(f"usr/{place.name}")
