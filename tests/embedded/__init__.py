"""Tests with real servers: started, killed and started again."""
