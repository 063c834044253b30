"""One workload a file; each gives the rows of its part of the report."""
