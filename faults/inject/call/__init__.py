"""Faults of calls: decided and counted at the caller, executed at the callee."""
