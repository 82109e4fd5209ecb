"""Reads for admission: facts about clusters, and refusals."""
