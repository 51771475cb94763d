"""The command line, without any protocol logic."""
