"""Lines, tiers and taxes of documents, and the document itself."""
