"""The state machine: nodes and edges, its state's channels, its checkpoints."""
