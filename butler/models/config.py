"""Which model to ask, where, and with what patience."""

from __future__ import annotations

from dataclasses import dataclass, field

from config.settings import Settings


@dataclass(frozen=True)
class ModelConfig:
    """One endpoint and its models.

    `timeout` is the longest silence in seconds, before the first token and between tokens.
    `context_limit` is how many tokens the model takes.
    """

    base_url: str
    model: str
    api_token: str = field(default="", repr=False)
    timeout: float = 60.0
    fallback_model: str | None = None
    context_limit: int = 32_768

    @staticmethod
    def from_settings(settings: Settings) -> ModelConfig | None:
        """Give the butler's own model, or None when it is not configured."""
        if settings.base_url is None or settings.model is None:
            return None
        token = settings.api_token
        return ModelConfig(
            base_url=settings.base_url,
            model=settings.model,
            api_token=token.get_secret_value() if token else "",
            timeout=settings.model_timeout,
            fallback_model=settings.fallback_model,
            context_limit=settings.context_limit,
        )

    @staticmethod
    def for_compaction(settings: Settings) -> ModelConfig | None:
        """Give the compactor's model: what it does not set of its own is the butler's (C4)."""
        own = settings.compaction
        url = own.base_url or settings.base_url
        model = own.model or settings.model
        if url is None or model is None:
            return None
        # The butler's token is for the butler's endpoint; another host must not get to see it.
        inherited = settings.api_token if own.base_url in (None, settings.base_url) else None
        token = own.api_token or inherited
        return ModelConfig(
            base_url=url,
            model=model,
            api_token=token.get_secret_value() if token else "",
            timeout=own.timeout,
            fallback_model=settings.fallback_model if own.model is None and own.base_url is None else None,
            context_limit=settings.context_limit,
        )
