"""The yardstick: a plain FastAPI and LangChain server with everything at its defaults."""
