"""Which test notices which bug: planted ones against all tests that reach them, and a drawn sample of small changes."""
