"""E-invoices of EN 16931: a final document as the standard's business terms, in CII and in UBL."""
