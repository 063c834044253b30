"""Measures Butler beside a plain LangGraph server, in one run on one machine."""
