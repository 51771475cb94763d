"""The command line, which contains no protocol logic."""
