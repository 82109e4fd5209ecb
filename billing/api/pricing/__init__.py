"""Endpoints of price books, prices, drafts, repricings and tiers."""
