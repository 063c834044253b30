"""What may happen: the policy says, people decide, the ledger remembers."""
