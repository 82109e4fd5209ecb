"""The allocation ledger, written from a cluster's watch: leases, lists, events, heartbeats."""
