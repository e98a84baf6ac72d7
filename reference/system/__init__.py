"""Helpers around the operating system: files, folders, signals, processes, printable text. None imports torch."""
