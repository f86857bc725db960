"""Run by the interpreter as a program: fetch one source archive through pip, without running its build.

`pip download` would run the package's build to read its metadata. pip's own finder and downloader do not, and
honour the user's configuration (index, proxy, certificates, credentials) all the same. They are no public
interface: pip 22 to 26 have been looked at. Should pip not have them where expected, `pip download` does it,
and says so; the archive is then checked by its hash before anything runs.
"""

from __future__ import annotations

import inspect
import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

NOT_THERE = 3
"""Exit code: every index answered and none has the archive. Any other but 0: it could not be fetched."""
FALLBACK = "pip's finder cannot be used"
"""How the line begins that says that `pip download` did it."""
_RESUMES = 5


def main(name: str, version: str, sha256: str, target: str) -> int:
    """0 if the archive lies in `target` afterwards, NOT_THERE, or 1."""
    try:
        return _find_and_download(name, version, target)
    except (ImportError, AttributeError, TypeError) as error:
        print(f"{FALLBACK}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return _pip_download(name, version, sha256, target)


def _find_and_download(name: str, version: str, target: str) -> int:
    from pip._internal.commands import create_command
    from pip._internal.exceptions import PipError

    command = cast(Any, create_command("download"))  # a download command; its steps are not public
    options, _ = command.parse_args(["--no-deps", "--no-binary", ":all:", name])
    unreached = _Unreached()
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options=options, session=session)
        for candidate in finder.find_all_candidates(name):
            if str(candidate.version) == version and candidate.link.filename.endswith(".tar.gz"):
                try:
                    _take(session, candidate.link, target)
                except (PipError, OSError) as error:
                    print(f"{type(error).__name__}: {error}", file=sys.stderr)
                    return 1
                return 0
    if unreached.lines:
        print("; ".join(dict.fromkeys(unreached.lines)), file=sys.stderr)
        return 1
    print(f"no source archive {name} {version} on the index that pip uses", file=sys.stderr)
    return NOT_THERE


def _take(session: Any, link: Any, target: str) -> None:
    """Copy or download the archive of `link` into the folder `target`."""
    from pip._internal.network.download import Downloader

    if link.is_file:
        shutil.copy(link.file_path, target)
        return
    known = inspect.signature(Downloader).parameters
    resumes = {"resume_retries": _RESUMES} if "resume_retries" in known else {}  # pip 25 alone
    cast(Any, Downloader)(session, "off", **resumes)(link, target)


class _Unreached(logging.Handler):
    """Collects what pip's finder passes over in silence: pages of an index that it could not read."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        logger = logging.getLogger("pip._internal.index.collector")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line, unless the index answered that it has no such page."""
        line = record.getMessage()
        if line.startswith("Could not fetch URL") and "404 Client Error" not in line:
            self.lines.append(line.removesuffix(" - skipping"))


def _pip_download(name: str, version: str, sha256: str, target: str) -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{name}=={version} --hash=sha256:{sha256}\n")
        file.flush()
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
        command += ["--require-hashes", "-r", file.name, "-d", str(Path(target))]
        return min(subprocess.run(command, check=False).returncode, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
