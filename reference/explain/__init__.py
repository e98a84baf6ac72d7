"""Say what is wrong with a trace: where it differs first, and which mistake gives exactly these numbers."""
