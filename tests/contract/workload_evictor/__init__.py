"""One suite that every workload evictor passes."""
