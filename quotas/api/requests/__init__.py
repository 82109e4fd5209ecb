"""Quota requests and the policies that route them, over REST."""
