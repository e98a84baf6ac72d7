"""The bound on a natural case's rounding errors, and the reordered twins that measure it."""
