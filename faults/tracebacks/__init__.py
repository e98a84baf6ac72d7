"""What a formatted traceback says of an error: its causes, its frames, its groups."""
