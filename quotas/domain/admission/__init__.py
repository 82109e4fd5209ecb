"""Admission: what a pod asks for, what counts, and why one is denied."""
