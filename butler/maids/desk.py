"""What a call of `delegate` means here: the task it describes, the folder, the maid that routes choose (D1, D3)."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from butler.canonical import canonical_json
from butler.errors import ButlerError
from butler.maids.conditions import Facts
from butler.maids.contract import Task
from butler.maids.projects import folder_meant, project_of, resolve_project
from butler.maids.quoting import one_line
from butler.maids.routing import Routed, route
from butler.maids.store import MaidRun, NewMaidRun
from butler.maids.verify.profile import parse_profile
from butler.types import Json, Verdict
from config.maid_types import MaidDefinition, MaidRegistryFile, RouteDefinition, VerificationProfile
from config.projects_file import ProjectDefinition

MOST_FORESEEN = 256
_INTENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
Gather = Callable[[Task], Awaitable[Facts]]
"""Finds out what routing decides by: files, health, past success."""


@dataclass(frozen=True)
class Desk:
    """Registry and routes, and what reads calls by them.

    Args:
        folder: that of maid_registry.yml.
        gather: None where nothing runs: calls are then routed by their words alone.
        projects: what single projects bring along; `registry` and `routes` are the house's own (D12).
    """

    registry: MaidRegistryFile = field(default_factory=MaidRegistryFile)
    routes: tuple[RouteDefinition, ...] = ()
    folder: Path = Path()
    gather: Gather | None = None
    projects: tuple[ProjectDefinition, ...] = ()
    _foreseen: OrderedDict[str, Routed | None] = field(default_factory=OrderedDict)

    @property
    def maids(self) -> tuple[MaidDefinition, ...]:
        """Every maid, the house's and those of single projects."""
        return (*self.registry.maids, *(maid for project in self.projects for maid in project.own_maids))

    def ground(self, root: Path) -> ProjectDefinition:
        """What holds for tasks on a folder: its project, or the house alone."""
        found = project_of(root, self.projects)
        return found or ProjectDefinition("", root, self.folder, self.registry, self.routes)

    def meant(self, args: Json) -> Json:
        """A call with the folder in place of a project's name or another spelling, as rules, grants and people see it.

        Raises:
            ButlerError: ``invalid_request`` for a name that no project has.
        """
        wanted = args.get("project_root")
        return {**args, "project_root": folder_meant(wanted, self.projects)} if isinstance(wanted, str) else args

    def read(self, args: Json) -> NewMaidRun:
        """The task of a call, whose project is a folder by now.

        Raises:
            ButlerError: ``invalid_request`` or ``forbidden`` for what can't be done.
        """
        if _INTENT.fullmatch(args["intent"]) is None:
            raise ButlerError("invalid_request", "The intent must be one word, such as implement.")
        words = [args["instruction"], *(args.get("constraints") or ())]
        if not args["instruction"].strip() or any("\0" in text for text in words):
            raise ButlerError("invalid_request", "The instruction must be a text that says what to do.")
        wanted = args.get("project_root")
        if wanted is not None and (folder := folder_meant(wanted, self.projects)) != wanted:
            # Rules have spoken on the arguments as they are: another spelling of the folder would get past them.
            told = f"Write the project's folder here, {folder}, in place of its name or another spelling."
            raise ButlerError("invalid_request", told)
        root = self.project(wanted)
        expect = args.get("expect")
        if expect is not None:
            self._expected(expect, root)
        return NewMaidRun(args["intent"], args["instruction"], str(root), tuple(args.get("constraints") or ()), expect)

    def _expected(self, expect: Json, root: Path) -> VerificationProfile:
        """The checks of a call, with scripts beside the project's own registry, else beside the house's."""
        ground = self.ground(root)
        try:
            return parse_profile(expect, ground.registry, ground.folder)
        except ButlerError:
            if ground.folder == self.folder:
                raise
            with suppress(ButlerError):
                return parse_profile(expect, ground.registry, self.folder)
            raise

    def project(self, wanted: str | None) -> Path:
        """The folder that is meant; the only allowed one where none is named."""
        roots = self.registry.project_roots
        if wanted is None and len(roots) != 1:
            said = f"allowed are {', '.join(map(str, roots))}" if roots else "maid_registry.yml allows none"
            raise ButlerError("invalid_request", f"Say which project it is, as `project_root`; {said}.")
        return resolve_project(str(roots[0]) if wanted is None else wanted, roots)

    def task(self, run: MaidRun, maid_id: str | None = None) -> Task:
        """The task as launchers and routes see it; `maid_id` where a person named the maid."""
        expect = self._expected(run.expect, Path(run.project_root)) if run.expect is not None else None
        return Task(
            run.maid_run_id,
            run.intent,
            run.instruction,
            Path(run.project_root),
            tuple(run.constraints),
            expect,
            maid_id,
        )

    async def foresee(self, args: Json) -> Routed:
        """Where a call would go; kept, so that its verdict can be told without looking again.

        Raises:
            ButlerError: the call can't be carried out at all.
        """
        try:
            read = self.read(args)
        except ButlerError:
            self._keep(args, None)
            raise
        task = Task("", read.intent, read.instruction, Path(read.project_root), read.constraints, None,
                    args.get("maid_id"))  # fmt: skip
        facts = await self.gather(task) if self.gather is not None else _words(args)
        ground = self.ground(task.project_root)
        routed = route(facts, ground.routes, ground.registry)
        self._keep(args, routed)
        return routed

    def _keep(self, args: Json, routed: Routed | None) -> None:
        self._foreseen[canonical_json(args)] = routed
        while len(self._foreseen) > MOST_FORESEEN:
            self._foreseen.popitem(last=False)

    def verdict_for(self, args: Json) -> Verdict:
        """Whether starting needs to be asked about: the maid's `launch_verdict`; what is not delegated starts nothing.

        What can't be carried out is allowed as well: it comes back with what is wrong with it.
        """
        key = canonical_json(args)
        try:
            seen = key in self._foreseen
            routed = self._foreseen[key] if seen else self._by_words(args)
        except ButlerError:
            return "allow"
        return routed.maid.launch_verdict if routed is not None and routed.maid is not None else "allow"

    def goal_of(self, args: Json) -> str:
        """Where a call would go as things are, in a sentence for who is asked about it; empty where nobody knows."""
        routed = self._foreseen.get(canonical_json(args))
        if routed is None:
            return ""
        maid = routed.maid
        if maid is None:
            return f"It would not be delegated: {routed.reason}"
        model = f", model {one_line(maid.model, 100)}" if maid.model else ""
        at = f" at {one_line(maid.provider, 100)}" if maid.provider else ""
        return f"It would start the maid {maid.maid_id}{model}{at}."

    def _by_words(self, args: Json) -> Routed:
        ground = self.ground(self.project(args.get("project_root"))) if self.projects else None
        routes, registry = (ground.routes, ground.registry) if ground else (self.routes, self.registry)
        return route(_words(args), routes, registry)


def _words(args: Json) -> Facts:
    return Facts(str(args.get("intent", "")), str(args.get("instruction", "")), maid_id=args.get("maid_id"))
