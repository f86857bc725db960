"""A recipe opened for work: its file, its home, the profile it gets and why, its runs."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mimo.pipeline.code import CodeReader
from mimo.pipeline.order import Order
from mimo.pipeline.plan import Plan, Selection, make_plan
from mimo.pipeline.program import called_as
from mimo.recipe.layers import find_recipe
from mimo.recipe.loader import ResolvedRecipe
from mimo.recipe.machine import load_for_machine
from mimo.recipe.models import Recipe
from mimo.run_dir.files import canonical
from mimo.run_dir.home import Home, find_home
from mimo.run_dir.runs import RunFolder, list_runs

_AGAIN = re.compile(r"the same command with `--from ([a-z0-9-]+)`")
"""How stages say it in a hint: not every command (`mimo audit RECIPE`, `--only`) takes `--from`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the user named: the recipe, a profile, overrides, stages."""

    recipe: Path
    profile: str | None = None
    overrides: tuple[str, ...] = ()
    selection: Selection = field(default_factory=Selection)

    def command(self, profile: str | None = None, *, done: Container[str] = ()) -> str:
        """The command that goes on with this request; the stages `done` are not made a second time."""
        words = self.words("run", profile=profile)
        chosen = self.selection
        words += ["--from", chosen.start] if chosen.start and chosen.start not in done else []
        words += ["--until", chosen.until] if chosen.until else []
        for option, names in (("--only", chosen.only), ("--force", chosen.force)):
            for name in names:
                words += [option, name] if option == "--only" or name not in done else []
        return shlex.join(words)

    def words(self, *command: str, profile: str | None = None) -> list[str]:
        """Another command for the same recipe, profile and overrides, as words: `words("accept", stage)`."""
        words = [*called_as(), *command, str(self.recipe)]
        if self.profile or profile:
            words += ["--profile", str(self.profile or profile)]
        for override in self.overrides:
            words += ["--set", override]
        return words


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """An opened recipe.

    `why` says how the profile came about, None when the user named it; `pinned_by` is the run it comes from.
    `home_named`: MIMO_HOME said where the state is.
    """

    request: Request
    home: Home
    resolved: ResolvedRecipe
    why: str | None
    order: Order
    reader: CodeReader
    pinned_by: str | None = None
    home_named: bool = False

    @property
    def recipe(self) -> Recipe:
        """The checked recipe."""
        return self.resolved.model

    @property
    def profile(self) -> str:
        """The profile laid on it; empty for a recipe without profiles."""
        return self.resolved.profile or ""

    @property
    def result(self) -> str:
        """sha256 of what results depend on: equal for runs that want the same."""
        wanted = {
            "recipe": self.recipe.semantic(),
            "stages": list(self.recipe.stages),
            "profile": self.profile,
        }
        return hashlib.sha256(canonical(wanted)).hexdigest()

    @property
    def lock(self) -> Path:
        """The lock file of this recipe under this profile."""
        return lock_path(self.home, self.resolved.path, self.profile)

    def command(self, *, done: Container[str] = ()) -> str:
        """The command that goes on with this, in any shell: it names the state folder where MIMO_HOME did.

        `done` are stages that were finished meanwhile: what was asked for them is not asked for again.
        """
        return self._home_words() + self.request.command(self.profile, done=done)

    def accept_command(self, stage: str) -> str:
        """The command that keeps a stage's result although the code has changed."""
        return self._home_words() + shlex.join(self.request.words("accept", stage, profile=self.profile))

    def run_command(self, *options: str) -> str:
        """`mimo run` of this recipe with other stages than asked for: `run_command("--from", stage)`."""
        return self._home_words() + shlex.join([*self.request.words("run", profile=self.profile), *options])

    def exact(self, hint: str) -> str:
        """A stage's hint with the command in full: a stage knows neither recipe nor options."""
        return _AGAIN.sub(lambda found: f"`{self.run_command('--from', found[1])}`", hint)

    def _home_words(self) -> str:
        return f"MIMO_HOME={shlex.quote(str(self.home.root))} " if self.home_named else ""

    def plan(self) -> Plan:
        """The plan as code and store are now; writes nothing but the cache of parsed code."""
        plan = make_plan(self.home, self.recipe, self.order, self.request.selection, self.reader)
        self.reader.save()
        return plan

    def runs(self) -> list[RunFolder]:
        """The runs of this recipe under this profile, newest first."""
        return list_runs(self.home, self.resolved.path, self.profile)


def open_project(
    request: Request,
    *,
    order: Order | None = None,
    environ: Mapping[str, str] = os.environ,
    latest: bool = False,
) -> Project:
    """The recipe of `request`, its profile decided: named, or pinned by an unfinished run, or by the machine.

    With `latest` (commands that only read) a finished newest run gives the profile too.

    Raises:
        RecipeError: anything wrong with the recipe; all at once.
    """
    path = find_recipe(request.recipe, str(request.recipe)).resolve()
    home = find_home(path, environ)
    pinned = None if request.profile else _pinned(home, path, latest=latest)
    resolved, why = load_for_machine(
        request.recipe,
        profile=request.profile or (pinned.profile if pinned else None),
        overrides=request.overrides,
    )
    if pinned is not None:
        why = f"of run {pinned.run}; --profile names another"
    cache = home.cache / "code.json"
    return Project(
        request=request,
        home=home,
        resolved=resolved,
        why=why,
        order=order or Order(),
        reader=CodeReader(cache),
        pinned_by=pinned.run if pinned else None,
        home_named=bool(environ.get("MIMO_HOME")),
    )


def lock_path(home: Home, recipe_file: Path, profile: str) -> Path:
    """The lock of a recipe file under a profile."""
    digest = hashlib.sha256(f"{recipe_file}\0{profile}".encode()).hexdigest()[:12]
    return home.locks / f"run-{recipe_file.stem}-{profile or 'plain'}-{digest}.lock"


@dataclass(frozen=True, slots=True)
class _Pinned:
    run: str
    profile: str


def _pinned(home: Home, path: Path, *, latest: bool) -> _Pinned | None:
    """The newest run of the recipe, when it is unfinished (or `latest`) and has a profile."""
    for run in list_runs(home, path)[:1]:
        state, record = run.state(), run.record()
        unfinished = state is not None and state.status != "done"
        if (unfinished or latest) and record is not None and record.profile:
            return _Pinned(record.run, record.profile)
    return None
