"""Which code and recipe a run was started from: commit, branch, dirty, diff; unknown is an answer too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mimo.types import Json

_DIFF_BYTES = 2**20


def provenance(folder: Path, redact: Callable[[str], str] = str) -> dict[str, Json]:
    """{commit, branch, dirty, diff} of the git work tree that holds `folder`, or {unknown: why}.

    `redact` takes secrets out of the diff. A tree of another owner («dubious ownership») or one without a
    commit is unknown, never an error.
    """
    try:
        import git
    except ImportError as error:
        return {"unknown": f"git cannot be used: {str(error).splitlines()[0]}"}
    try:
        with git.Repo(folder, search_parent_directories=True) as repository:
            return _facts(repository, redact)
    except (git.GitError, ValueError, OSError) as error:
        return {
            "unknown": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        }


def _facts(repository: object, redact: Callable[[str], str]) -> dict[str, Json]:
    import git

    assert isinstance(repository, git.Repo)
    diff = str(repository.git.diff("HEAD", "--no-ext-diff"))
    branch = "detached" if repository.head.is_detached else repository.active_branch.name
    return {
        "commit": repository.head.commit.hexsha,
        "branch": branch,
        "dirty": bool(diff) or bool(repository.untracked_files),
        "diff": redact(diff)[:_DIFF_BYTES],
    }
