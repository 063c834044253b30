"""The process side of maids: environments, processes, limits, and the launchers of scripts and agents (D4, D11)."""
