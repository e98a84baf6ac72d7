"""Judge other implementations: a suite of cases on disk, the commands that run it, and the judge of their results."""
