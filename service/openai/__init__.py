"""The OpenAI-compatible face: chat clients speak to Butler as if it were a model (http-api, *OpenAI-compatible*)."""
