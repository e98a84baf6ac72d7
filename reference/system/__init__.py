"""What a program asks of the operating system: files, folders, signals, processes, and text for people. No torch."""
