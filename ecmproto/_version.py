"""The version number, defined here alone."""

__version__ = "0.2.0.dev0"
