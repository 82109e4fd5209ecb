"""Performance figures, each held against a limit: `make bench` or `make bench BENCH=metering`."""
