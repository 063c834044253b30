"""The real Goose as a maid of a real server: launched, watched, checked and stopped like any other."""
