"""The JSON schemas of the files a person edits, for editors; ``python -m config.published`` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from config.maid_entries import MaidsDocument
from config.mcp_entries import McpDocument
from config.notify_file import NotifyDocument
from config.policy_file import PolicyDocument
from config.projects_file import ProjectsDocument
from config.route_entries import RoutesDocument
from config.tools_file import ToolsDocument

FOLDER = Path(__file__).parent / "schema"
FILES: Mapping[str, type[BaseModel]] = {
    "tools": ToolsDocument,
    "policy": PolicyDocument,
    "notify": NotifyDocument,
    "maid_registry": MaidsDocument,
    "intent_maid_routes": RoutesDocument,
    "projects": ProjectsDocument,
    "mcp": McpDocument,
}
JSON_FILES = frozenset({"mcp"})


def published_schemas() -> dict[str, str]:
    """Give the text of every published schema by file name."""
    texts = {}
    for name, model in FILES.items():
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **model.model_json_schema(),
            "title": f"{name}.json" if name in JSON_FILES else f"{name}.yml",
        }
        texts[f"{name}.schema.json"] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return texts


def main() -> None:
    """Write the schemas to ``config/schema``."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in published_schemas().items():
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
