"""What is exported: FOCUS datasets with their rules, and a month as one bundle."""
