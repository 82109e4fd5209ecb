"""Admission of pods, and what reservations and counters become."""
