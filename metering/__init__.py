"""What was used: the allocation ledger, windows, usage, device facts and exceptions."""
