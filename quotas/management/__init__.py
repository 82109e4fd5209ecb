"""The doors of the shell."""
