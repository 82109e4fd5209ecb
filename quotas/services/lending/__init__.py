"""Loans of quota between projects: proposed, decided and ended."""
