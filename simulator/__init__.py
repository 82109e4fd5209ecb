"""The outside world, played for demo, tests and bench: clusters, their APIs, and what reads them.

It imports the product and is not part of the image; nothing of the product imports it.
"""
