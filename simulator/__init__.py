"""The outside world, played for demo, tests and bench: clusters, their APIs, and what reads them.

It stands above the product and outside the image; nothing of the product imports it.
"""
