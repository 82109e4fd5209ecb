"""Reading what documents are made of: charges, tiers, taxes and membership."""
