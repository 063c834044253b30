"""`butler notify`: try the channels, look at the queue."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from config.environment import read_environment
from config.problems import ConfigError
from config.settings import Settings, load_settings
from service.address import read_url
from service.cli.common import configuration, open_database
from service.cli.exits import FAILED
from service.cli.plain import json_document, visible

notify_app = typer.Typer(help="Try the notification channels, look at what waits.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
STATUSES = ("queued", "sent", "dropped", "failed")


@notify_app.command("test")
def notify_test(
    name: Annotated[str | None, typer.Argument(help="Only this person's channels.")] = None,
    as_json: AsJson = False,
) -> None:
    """Send a test message to every channel and print what came of each."""
    # Imported here: the other commands need not wait for it.
    from service.notify.channels import Channels
    from service.notify.messages import trial_message
    from service.notify.sender import AppriseSender

    read = configuration()
    channels = Channels(read.channels)
    chosen = channels.of(name) if name is not None else list(channels)
    if not chosen:
        known = ", ".join(sorted(channels.users())) or "nobody"
        said = f"No channel to try; channels are configured for: {known}. See docs/notifications.md."
        print(json_document({"code": "not_found", "detail": said}) if as_json else said)
        raise typer.Exit(FAILED)
    sender = AppriseSender(channels)
    base = _base(read.settings)
    failed, items = False, []
    for channel in chosen:
        fault = asyncio.run(sender.send(channel, trial_message(channel.user, base)))
        failed = failed or fault is not None
        if as_json:
            source = str(channel.definition.source)
            items.append({"user": channel.user, "channel": channel.shown, "source": source, "fault": fault})
        else:
            print(visible(f"{channel.user} {channel.shown} ({channel.definition.source}): {fault or 'sent'}"))
    if as_json:
        print(json_document({"ok": not failed, "items": items}))
    if failed:
        raise typer.Exit(FAILED)


@notify_app.command("list")
def notify_list(as_json: AsJson = False) -> None:
    """Count what is queued, sent, dropped and given up, and name the channels that fail."""
    from service.doctor_notify import failing, sentence
    from service.notify import queue
    from service.notify.channels import Channels
    from service.wiring import read_channels

    settings = load_settings()
    with open_database(settings) as database:
        counts = database.write_now(queue.counts)
        troubles = database.write_now(failing)
    try:
        # Only for the services' names: the variables of notify.yml may be set for the server alone.
        channels = Channels(read_channels(settings, read_environment().values))
    except ConfigError:
        channels = Channels(())
    said = [sentence(trouble, channels) for trouble in troubles]
    if as_json:
        print(json_document({status: counts.get(status, 0) for status in STATUSES} | {"failing": said}))
        return
    for status in STATUSES:
        print(f"{status}: {counts.get(status, 0)}")
    for one in said:
        print(visible(f"failing: {one}"))
    if not troubles:
        print("No channel fails.")


def _base(settings: Settings) -> str:
    return settings.public_url or read_url(settings.data_dir) or f"http://{settings.host}:{settings.port}"
