"""Checks of a maid's work, made outside the maid: files, commands, URLs, exact output, and nothing else (D8)."""
