"""The demo: a simulated month metered, priced and invoiced, and checked against an oracle."""
