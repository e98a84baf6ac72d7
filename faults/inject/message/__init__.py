"""Faults of RPC's own messages, by torch's faulty agent."""
