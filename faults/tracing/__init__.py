"""Remembers who made and who holds each RRef and each autograd context of this process."""
