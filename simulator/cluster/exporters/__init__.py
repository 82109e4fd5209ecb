"""A simulated cluster's exporters: series, their text formats, and the HTTP servers."""
