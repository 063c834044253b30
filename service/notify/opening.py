"""Putting the notifier together; the first use of Apprise in a server that has a channel."""

from __future__ import annotations

from service.butler import ButlerService
from service.notify.channels import Channels
from service.notify.notifier import Notifier, Trouble
from service.notify.preparing import Preparer
from service.notify.sender import AppriseSender


def open_notifier(service: ButlerService, channels: Channels, trouble: Trouble) -> Notifier:
    """The notifier of a running house."""
    faculties = service.faculties
    preparer = Preparer(service.links, faculties.tools, faculties.redactor)
    return Notifier(service.database, channels, AppriseSender(channels), preparer, service.showings.saw, trouble)
