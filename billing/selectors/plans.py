"""The shape of plans, as metering has it."""

from metering.selectors.collection.plans import prefer_hash_joins

__all__ = ["prefer_hash_joins"]
