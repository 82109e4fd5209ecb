"""Adapters: what every app needs to reach a cluster. They know no model and hold no rule."""
