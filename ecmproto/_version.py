"""The version number; every other module and the package metadata read it here."""

__version__ = "0.2.0.dev0"
