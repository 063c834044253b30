"""What stands behind `langgraph dev`: who may come in, and the books of its turns. No HTTP of Butler's own (B1)."""
