"""The WebSocket face: frames, connections, and who is told what (http-api, *Agents and the socket*)."""
