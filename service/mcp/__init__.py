"""Butler as a server of the Model Context Protocol: `/mcp` and `butler mcp` (E1)."""
