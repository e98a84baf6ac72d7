"""A user's own program under a plan: any command whose processes are Python's."""
