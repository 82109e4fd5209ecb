"""What operators and clusters see of a process: health, metrics, logs and the probe."""
