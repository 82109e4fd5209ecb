"""The REST door of quotas."""
