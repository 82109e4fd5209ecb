"""Schema history of quotas."""
