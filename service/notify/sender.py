"""Sending through Apprise, in threads of its own: a dead or slow peer holds up nobody but itself (B7)."""

from __future__ import annotations

import asyncio
import html
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from butler.redact import MASK
from config.notify_urls import load_apprise, secrets_of
from service.notify.channels import Channel, Channels

SEND_SECONDS = 45.0
MOST_ERROR_CHARACTERS = 300


@dataclass(frozen=True)
class Message:
    """What goes to a channel: plain text, whatever the service makes of other text."""

    title: str
    body: str


class Sender(Protocol):
    """Where messages leave the house."""

    def limit(self, channel: Channel) -> int:
        """How many characters of a body the channel takes."""
        ...

    def busy(self, channel: Channel) -> bool:
        """Whether an earlier message is still on its way, given up or not."""
        ...

    async def send(self, channel: Channel, message: Message) -> str | None:
        """Send; None when the service took it, else what went wrong, without secrets."""
        ...


class AppriseSender:
    """One Apprise service and at most one thread per channel."""

    def __init__(self, channels: Channels, *, seconds: float = SEND_SECONDS) -> None:
        self._apprise = load_apprise()
        asset = self._apprise.AppriseAsset(
            app_id="Butler", app_desc="Butler", app_url="", async_mode=False, plugin_paths=[]
        )
        self._seconds = seconds
        self._services: dict[str, Any] = {
            channel.key: self._apprise.Apprise.instantiate(channel.url, asset=asset) for channel in channels
        }
        self._asset = asset
        self._threads: dict[str, threading.Thread] = {}

    def limit(self, channel: Channel) -> int:
        """How many characters of a body the channel takes beside a title, counted as `size` does."""
        service = self._services[channel.key]
        shares = service.overflow_amalgamate_title or not service.title_maxlen
        return int(service.body_maxlen) - (service.title_maxlen or 150 if shares else 0)

    def busy(self, channel: Channel) -> bool:
        """Whether the channel's thread still runs."""
        thread = self._threads.get(channel.key)
        return thread is not None and thread.is_alive()

    async def send(self, channel: Channel, message: Message) -> str | None:
        """Send in a thread; after the time is over the thread is left alone and counts as a failure."""
        done: Future[str | None] = Future()
        work = threading.Thread(
            target=_settle, args=(done, lambda: self._send_now(channel, message)), daemon=True,
            name=f"butler-notify-{channel.key}",
        )  # fmt: skip
        self._threads[channel.key] = work
        work.start()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(done), self._seconds)
        except TimeoutError:
            return f"no answer within {self._seconds:g} s"

    def _send_now(self, channel: Channel, message: Message) -> str | None:
        sending = self._apprise.Apprise(asset=self._asset)
        sending.add(self._services[channel.key])
        result = sending.notify(
            body=message.body, title=message.title, body_format=self._apprise.NotifyFormat.TEXT,
            interpret_escapes=False,
        )  # fmt: skip
        if result:
            return None
        said = [str(entry.message) for entry in result.logs()]
        return redacted(" ".join(said[-2:]) or "the service did not take the message", channel)


def size(text: str) -> int:
    """The length of a text for a service's limit; some services get it as HTML."""
    return len(html.escape(text, quote=False))


def redacted(text: str, channel: Channel) -> str:
    """An error with every part of the channel's URL masked, in one line that is not too long."""
    for secret in sorted(secrets_of(channel.url), key=len, reverse=True):
        text = text.replace(secret, MASK)
    line = " ".join(text.split())
    return line if len(line) <= MOST_ERROR_CHARACTERS else f"{line[:MOST_ERROR_CHARACTERS]}…"


def _settle(done: Future[str | None], work: Callable[[], str | None]) -> None:
    """Run the work and put what came of it into the future, also when Apprise breaks in an unforeseen way."""
    try:
        found = work()
    except Exception as error:
        # Its text may hold the URL, so only its kind is told.
        found = f"Apprise failed with {type(error).__name__}"
    # False when nobody waits any more: the time was over, or the server stops.
    if done.set_running_or_notify_cancel():
        done.set_result(found)
