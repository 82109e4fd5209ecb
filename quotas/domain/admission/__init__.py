"""Admission: requests of pods, what counts, and the reasons of denials."""
