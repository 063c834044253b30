"""Letting others watch: log lines, and traces that leave the house when its owner says where to (B8)."""
