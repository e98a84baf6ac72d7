"""Which tests notice a drawn sample of small changes: ``python -m tests.kills``."""
