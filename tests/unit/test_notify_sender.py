"""Sending through Apprise: plain text for every service, bounded time, errors without secrets."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from pydantic import SecretStr

from config.notify_file import EVENTS, ChannelDefinition
from service.notify.channels import Channel, Channels, secrets_of_channels
from service.notify.messages import approval_message
from service.notify.sender import AppriseSender, Message
from tests.support.polling import wait_until

TELEGRAM = "tgram://123456789:planted-t0ken-abcdefghij/12315544"
DISCORD = "discord://123456789012345678/abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general"
MATTERMOST = "mmost://localhost/3ccdd113474722377935511fc85d3dd4"
NTFY = "ntfy://planted-topic"
JSON = "json://user:planted-pass@127.0.0.1:9/planted-path"


def opened(url: str, seconds: float = 5.0) -> tuple[AppriseSender, Channel]:
    definition = ChannelDefinition("ann", SecretStr(url), frozenset(EVENTS), True, "test")
    channels = Channels([definition])
    [channel] = channels
    return AppriseSender(channels, seconds=seconds), channel


def intercept(monkeypatch: pytest.MonkeyPatch, sender: AppriseSender, channel: Channel, send: Any) -> None:
    monkeypatch.setattr(sender._services[channel.key], "send", send)


@pytest.mark.parametrize("url", [TELEGRAM, DISCORD, SLACK, MATTERMOST, NTFY, JSON])
async def test_every_service_gets_the_message_whole_and_without_markup_of_others(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    sender, channel = opened(url)
    got: list[str] = []

    def send(body: str, title: str = "", **_: Any) -> bool:
        got.append(f"{title}\n{body}")
        return True

    intercept(monkeypatch, sender, channel, send)
    link = "http://127.0.0.1:8710/decide/abc.def"
    args = {"text": "<b>x</b> [a](http://evil.example) @everyone <!channel> <@1> & \u202e" + "<&>" * 3000}
    shown = {
        "requested_by": "mia", "tool": "send_mail", "risk": "dangerous", "code": "AB2CD", "reason": "because",
        "rule": "r", "fingerprint": "f" * 64, "expires_at": None, "execution": "none", "args": args,
    }  # fmt: skip
    message = approval_message(shown, limit=sender.limit(channel), link=link, name="ann")
    assert await sender.send(channel, message) is None
    [text] = got
    assert link in text and "/approve AB2CD" in text and "Approval needed" in text
    for lure in ("<b>x", "](http", "@everyone", "<!channel>", "<@1>", "\u202e"):
        assert lure not in text
    service = sender._services[channel.key]
    assert len(text) <= service.body_maxlen + service.title_maxlen


async def test_a_send_without_an_end_is_a_failure_and_keeps_its_channel_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    sender, channel = opened(JSON, seconds=0.05)
    gate = threading.Event()
    intercept(monkeypatch, sender, channel, lambda **_: gate.wait(10))
    assert await sender.send(channel, Message("t", "b")) == "no answer within 0.05 s"
    assert sender.busy(channel)
    gate.set()
    wait_until(lambda: not sender.busy(channel), "the thread ends")


async def test_what_apprise_says_of_a_failure_is_told_without_the_urls_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sender, channel = opened(JSON)
    assert not logging.getLogger("apprise").propagate
    service = sender._services[channel.key]

    def send(**_: Any) -> bool:
        service.logger.warning("Failed at http://user:planted-pass@127.0.0.1:9/planted-path, error=401.")
        return False

    intercept(monkeypatch, sender, channel, send)
    fault = await sender.send(channel, Message("t", "b"))
    assert fault is not None and "error=401" in fault
    assert "planted" not in fault
    assert "planted" not in "".join(capsys.readouterr())


async def test_an_unforeseen_fault_of_a_service_is_a_failure_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    sender, channel = opened(JSON)

    def send(**_: Any) -> bool:
        raise RuntimeError("planted-pass")

    intercept(monkeypatch, sender, channel, send)
    fault = await sender.send(channel, Message("t", "b"))
    assert fault is not None
    assert "planted" not in fault


async def test_a_service_that_is_not_there_is_a_failure() -> None:
    sender, channel = opened(JSON)
    fault = await sender.send(channel, Message("t", "b"))
    assert fault is not None and "onnection" in fault
    assert "planted" not in fault


def test_a_channel_is_shown_by_its_service_and_a_digest() -> None:
    _, channel = opened(JSON)
    assert channel.shown.startswith("json#")
    assert "planted" not in f"{channel.shown}{channel!r}"


def test_the_house_masks_urls_passwords_and_tokens_but_no_common_words() -> None:
    definitions = [
        ChannelDefinition("ann", SecretStr(url), frozenset(EVENTS), True, "test")
        for url in ("json://user:only-letters@h.example/approvals/a1b2c3d4e5f6", TELEGRAM)
    ]
    found = secrets_of_channels(definitions)
    assert {"only-letters", "a1b2c3d4e5f6", "planted-t0ken-abcdefghij", TELEGRAM} <= found
    assert not {"approvals", "user"} & found
