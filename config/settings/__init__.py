"""Settings: one base, and what development, tests and production change of it."""
