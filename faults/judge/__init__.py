"""Judges a run by its folder: facts, then rules. Pure functions; no torch. No judged process imports it."""
