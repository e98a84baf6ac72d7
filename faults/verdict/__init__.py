"""Judges a run by its folder: pure functions. No torch."""
