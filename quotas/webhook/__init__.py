"""The door of the clusters: API servers ask here before a pod is made."""
