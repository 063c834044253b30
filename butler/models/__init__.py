"""The way to the language model: one gateway to any OpenAI-compatible endpoint (B2, B3)."""
