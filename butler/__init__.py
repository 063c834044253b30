"""Faculties of the butler: approvals, tools, models, memory, storage. Nothing here knows HTTP or LangGraph."""
