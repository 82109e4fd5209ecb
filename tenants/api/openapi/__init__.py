"""The description of the API: what each operation says, and what all share."""
