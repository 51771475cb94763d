"""Formats: one class per format, which is the only declaration of the format's fields and properties."""
