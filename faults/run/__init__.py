"""Runs and sweeps under a plan."""
