"""GPU Ledger on several hosts: a backlog of clusters, hosts that are killed, links that are cut."""
