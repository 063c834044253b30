"""Downstream agents: who is connected, commands on their way, and what came back (B5)."""
