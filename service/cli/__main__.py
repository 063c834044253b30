"""``python -m service.cli``."""

from service.cli.entry import main

main()
