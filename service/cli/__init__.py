"""The command line (E1): one file per family of commands; `main` is the entry point of ``butler``."""

from service.cli.entry import main, run

__all__ = ["main", "run"]
