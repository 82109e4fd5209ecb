"""Windows: opened, observed, composed, posted, reconciled and sealed."""
