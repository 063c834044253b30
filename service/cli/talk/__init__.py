"""`butler chat` (E1): the line to a run's events, the page they are shown on, and the talk at a terminal."""
