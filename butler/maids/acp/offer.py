"""What Butler does for an agent. The SDK takes most of a second to import, so it is imported when an agent runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp import schema


@dataclass(frozen=True)
class Offer:
    """What Butler does for an agent, which then does it less by itself: file access, commands."""

    files: bool = False
    terminals: bool = False

    def capabilities(self) -> schema.ClientCapabilities:
        """The offer in the words of the protocol."""
        from acp import schema

        files = schema.FileSystemCapabilities(read_text_file=self.files, write_text_file=self.files)
        return schema.ClientCapabilities(fs=files, terminal=self.terminals)
