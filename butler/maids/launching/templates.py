"""Fills in a maid's command: one item stays one item, no shell (D2, D4)."""

from __future__ import annotations

from butler.maids.contract import Launch
from config.templates import parse_template


def fill_command(launch: Launch) -> tuple[str, ...]:
    """Give the argument list of an attempt.

    ``{project_root}`` is the attempt's own tree, never the person's. ``{instruction}`` is the whole prompt for an
    agent, so that a second request differs from the first, and the caller's own words for a script, which reads no
    prompts.
    """
    maid = launch.maid
    values = {
        "instruction": launch.task.instruction if maid.kind == "script" else launch.prompt,
        "project_root": str(launch.tree),
        "prompt_file": str(launch.prompt_file),
        "intent": launch.task.intent,
        "model": maid.model or "",
    }
    templates = [parse_template(item, variables=False) for item in maid.command_template]
    return tuple(template.fill(values.__getitem__, lambda name: "") for template in templates)


def takes_prompt(launch: Launch) -> bool:
    """Whether the command has a place for the prompt; else it is given on standard input."""
    names = {name for item in launch.maid.command_template for name in parse_template(item, variables=False).arguments}
    return not names.isdisjoint({"instruction", "prompt_file"})
