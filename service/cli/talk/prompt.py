"""Where a person types: prompt_toolkit with history, completion, several lines, and word of what happens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle

from butler.errors import ButlerError

LOOK_SECONDS = 1.5
SIGN = "> "


class News(Exception):
    """Something happened in the open thread; what was being typed is there again at the next prompt."""


class Gone(Exception):
    """The terminal is gone."""


class Watched(Protocol):
    """What may change while a person types."""

    def has_news(self) -> bool:
        """Whether it has changed. Raises ButlerError."""


class Words(Protocol):
    """What may come next in a typed command."""

    def after(self, text: str) -> Iterable[tuple[str, str]]:
        """The words that may stand in place of the last one, each with what it means."""


class Prompt:
    """Reads messages."""

    def __init__(self, history: History, words: Words) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=history,
            completer=CommandCompleter(words),
            complete_in_thread=True,
            complete_while_typing=True,
            complete_style=CompleteStyle.COLUMN,
            reserve_space_for_menu=4,
            key_bindings=_keys(),
            prompt_continuation=lambda _width, _row, _wrapped: "  ",
        )
        self._begun = ""

    def give_back(self, text: str) -> None:
        """Have this typed already at the next prompt."""
        self._begun = text

    def read(self, watched: Watched) -> str:
        """The next message. Raises: EOFError, KeyboardInterrupt (nothing was typed), `News`."""
        begun, self._begun = self._begun, ""
        sign = FormattedText([("bold", SIGN)])
        self._session.app.erase_when_done = False
        while True:
            stop = threading.Event()
            watcher = threading.Thread(target=self._watch, args=(watched, stop), name="butler-watch", daemon=True)
            try:
                return self._session.prompt(sign, default=begun, pre_run=watcher.start)
            except KeyboardInterrupt:
                if not self._session.default_buffer.text:
                    raise
                begun = ""
            finally:
                stop.set()

    def _watch(self, watched: Watched, stop: threading.Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            # A server that is away for a while is no news; the next message will tell.
            with suppress(ButlerError):
                if watched.has_news():
                    loop = self._session.app.loop
                    if loop is not None and not stop.is_set():
                        with suppress(RuntimeError):
                            loop.call_soon_threadsafe(self._wake, stop)
                    return

    def _wake(self, stop: threading.Event) -> None:
        app = self._session.app
        if stop.is_set() or not app.is_running or app.future is None or app.future.done():
            return
        self._begun = self._session.default_buffer.text
        app.erase_when_done = True
        app.exit(exception=News())


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    @keys.add("escape", "c-j")
    def new_line(event: KeyPressEvent) -> None:
        """Alt-Enter begins a new line."""
        event.current_buffer.insert_text("\n")

    return keys


class CommandCompleter(Completer):
    """Completes commands, never plain messages."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What may stand at the cursor."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        typed = text.rpartition(" ")[2]
        for word, meaning in self._words.after(text):
            if word.startswith(typed) or word.lower().startswith(typed.lower()):
                yield Completion(word, start_position=-len(typed), display_meta=meaning)
