"""Faults of the network: namespaces, and rules that the launching process puts and heals."""
