"""Settings become model configurations; no token reaches an endpoint that it was not given for."""

from __future__ import annotations

from pathlib import Path

from butler.models.config import ModelConfig
from config.settings import Settings, load_settings

MODEL = {
    "BUTLER_BASE_URL": "http://127.0.0.1:1/v1",
    "BUTLER_MODEL": "large",
    "BUTLER_API_TOKEN": "the-token",
    "BUTLER_MODEL_TIMEOUT": "7",
    "BUTLER_FALLBACK_MODEL": "spare",
    "BUTLER_CONTEXT_LIMIT": "9000",
}
OWN = "BUTLER_CONTEXT_COMPACTION_"


def settings(tmp_path: Path, **environ: str) -> Settings:
    return load_settings(environ, tmp_path)


def test_a_configured_model_is_taken_with_all_its_settings(tmp_path: Path) -> None:
    config = ModelConfig.from_settings(settings(tmp_path, **MODEL))
    assert config == ModelConfig("http://127.0.0.1:1/v1", "large", "the-token", 7.0, "spare", 9000)
    assert "the-token" not in repr(config)


def test_without_address_or_model_there_is_none(tmp_path: Path) -> None:
    for missing in ("BUTLER_BASE_URL", "BUTLER_MODEL"):
        given = {name: value for name, value in MODEL.items() if name != missing}
        assert ModelConfig.from_settings(settings(tmp_path, **given)) is None
        assert ModelConfig.for_compaction(settings(tmp_path, **given)) is None


def test_the_compactor_uses_the_butlers_model_unless_it_has_its_own(tmp_path: Path) -> None:
    shared = ModelConfig.for_compaction(settings(tmp_path, **MODEL))
    assert shared == ModelConfig("http://127.0.0.1:1/v1", "large", "the-token", 30.0, "spare", 9000)
    own = ModelConfig.for_compaction(settings(tmp_path, **MODEL, **{OWN + "MODEL": "small"}))
    assert own == ModelConfig("http://127.0.0.1:1/v1", "small", "the-token", 30.0, None, 9000)


def test_the_butlers_token_is_not_sent_to_the_compactors_endpoint(tmp_path: Path) -> None:
    elsewhere = {OWN + "BASE_URL": "http://127.0.0.1:2/v1"}
    bare = ModelConfig.for_compaction(settings(tmp_path, **MODEL, **elsewhere))
    assert bare is not None and bare.api_token == ""
    own = ModelConfig.for_compaction(settings(tmp_path, **MODEL, **elsewhere, **{OWN + "API_TOKEN": "other"}))
    assert own is not None and own.api_token == "other"
