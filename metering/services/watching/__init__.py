"""Writing the allocation ledger from a watch: leases, lists, events, heartbeats."""
