"""Broken implementations, and the verdict and explanation that each must get: the judge's own test."""
