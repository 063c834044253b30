"""The HTTP face: one file per family of routes (http-api)."""
