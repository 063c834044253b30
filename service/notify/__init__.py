"""Telling people outside of Butler: what waits for them and what was answered (B7)."""
