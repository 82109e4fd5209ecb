"""The journal and what happens beside final documents, as plain rules."""
