"""The rules, with one file for each family."""
