"""Commands that span the apps: the demo and its servers."""
