"""Faults as plain data: what can go wrong in an RPC program, and the proof that it did.

This package knows a program only by role names, call names and process ids; it imports no tutorial.
"""
