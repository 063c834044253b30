"""Further real agents as maids, run by ``make test-agents`` alone: they are large, and slow to start."""
