"""Reads for headroom: the quota board, start times and forecasts."""
