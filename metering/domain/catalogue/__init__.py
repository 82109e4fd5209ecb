"""The catalogue: which size, price group and share one unit of a GPU resource is."""
