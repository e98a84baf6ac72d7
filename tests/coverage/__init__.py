"""Which tests reach which line, over all processes of the tests: ``python -m tests.coverage``."""
