"""The steps of a turn, one file each: state and runtime in, update out. Nothing here knows HTTP (B1)."""
