"""The REST views of quotas."""
