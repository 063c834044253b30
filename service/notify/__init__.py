"""Telling people outside of Butler what waits for them and what is finished (B7)."""
