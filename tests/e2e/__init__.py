"""Black-box tests: a real server process, spoken to by the HTTP contract alone."""
