"""What may be used: limits, requests and their enforcement in the cluster."""
