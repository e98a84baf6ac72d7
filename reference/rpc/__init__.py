"""Mechanisms that several tutorials use over RPC."""
