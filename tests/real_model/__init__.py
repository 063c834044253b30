"""Opt-in tests against a real, very small language model; `make test-model` runs them."""
