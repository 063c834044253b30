"""Maids of kind script: deterministic programs without a model; no network inside the sandbox (D4)."""

from __future__ import annotations

from dataclasses import dataclass, field

from butler.maids.contract import Finished, Launch, Watcher
from butler.maids.launching.headless import Settings, run_headless
from butler.maids.launching.speech import PlainSpeech
from butler.maids.launching.templates import fill_command


@dataclass(frozen=True)
class ScriptLauncher:
    """Runs the command with nothing on its input; every line of output is text."""

    settings: Settings = field(default_factory=Settings)

    async def run(self, launch: Launch, watcher: Watcher) -> Finished:
        """Run one attempt; see `Launcher.run`."""
        return await run_headless(launch, fill_command(launch), watcher, PlainSpeech(), self.settings, network=False)
