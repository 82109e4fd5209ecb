"""The contract of ClusterWatch: one suite, every implementation."""
