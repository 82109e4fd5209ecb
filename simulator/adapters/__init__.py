"""Sources, watches, enforcers and senders that speak to simulated clusters, or to memory."""
