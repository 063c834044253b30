"""Numbers for Prometheus: counted as things happen, put into its form only when somebody asks (E5)."""
