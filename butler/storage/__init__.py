"""Rows that outlive the process: one writer thread, several readers, migrations."""
