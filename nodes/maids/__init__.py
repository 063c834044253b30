"""The steps of a delegated task, one file each; where it goes on is read from the database after each step (D7)."""
