"""Maids of kind cli: any agent that is given its prompt at the start and asks nothing, such as ``goose run`` (D4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from butler.maids.acp.places import Place
from butler.maids.contract import Finished, Launch, Watcher
from butler.maids.launching.headless import Settings, run_headless
from butler.maids.launching.speech import AgentSpeech
from butler.maids.launching.templates import fill_command, takes_prompt


@dataclass(frozen=True)
class CliLauncher:
    """Runs the command; a prompt that the command has no place for is its standard input.

    The exit code is written down and decides nothing: agents say 0 to failures and 1 to success.
    """

    settings: Settings = field(default_factory=Settings)

    async def run(self, launch: Launch, watcher: Watcher) -> Finished:
        """Run one attempt; see `Launcher.run`."""
        speech = AgentSpeech(Place.of(launch.tree, launch.home))
        stdin: Literal["nothing"] | Path = "nothing" if takes_prompt(launch) else launch.prompt_file
        return await run_headless(launch, fill_command(launch), watcher, speech, self.settings, stdin=stdin)
