"""Trying a maid on a suite of small tasks, and what the results say about giving it real ones (D13)."""
