"""MCP servers as sources of tools: sessions that last, tools that come and go, answers that are only data (E3)."""
