"""Faults as plain data: what can go wrong in an RPC program, and the proof that it did.

This room meets a program only through role names, call names and process ids; it imports no tutorial.
"""
