"""Sources, watches, enforcers and senders of simulated clusters, or in memory."""
