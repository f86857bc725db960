"""Run by the interpreter as a program: fetch one source archive through pip, without running its build.

`pip download` would run the package's build to read its metadata. pip's own finder and downloader do not, and
honour the user's configuration (index, proxy, certificates, credentials) all the same. Should pip not have
them where expected, `pip download` does it; the archive is then checked by its hash before anything runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast


def main(name: str, version: str, sha256: str, target: str) -> int:
    """0 if the archive lies in `target` afterwards."""
    try:
        return _find_and_download(name, version, target)
    except (ImportError, AttributeError, TypeError) as error:
        print(f"pip's finder cannot be used ({error}); using pip download", file=sys.stderr)
        return _pip_download(name, version, sha256, target)


def _find_and_download(name: str, version: str, target: str) -> int:
    from pip._internal.commands import create_command
    from pip._internal.network.download import Downloader

    command = cast(Any, create_command("download"))  # a download command; its steps are not public
    options, _ = command.parse_args(["--no-deps", "--no-binary", ":all:", name])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options=options, session=session)
        for candidate in finder.find_all_candidates(name):
            if str(candidate.version) == version and candidate.link.filename.endswith(".tar.gz"):
                if candidate.link.is_file:
                    shutil.copy(candidate.link.file_path, target)
                else:
                    cast(Any, Downloader)(session, "off", False)(candidate.link, target)
                return 0
    print(f"no source archive {name} {version} on the index that pip uses", file=sys.stderr)
    return 1


def _pip_download(name: str, version: str, sha256: str, target: str) -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{name}=={version} --hash=sha256:{sha256}\n")
        file.flush()
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
        command += ["--require-hashes", "-r", file.name, "-d", str(Path(target))]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
