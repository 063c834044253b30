"""Maids: delegated work that is supervised, verified by Butler's own eyes, and approved by a person (D1 to D13)."""
