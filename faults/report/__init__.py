"""Show runs: as a page, and as a trace for Perfetto."""
