"""The command ``python -m reference``. Importing this room imports nothing: signals come first."""
