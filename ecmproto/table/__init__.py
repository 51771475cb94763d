"""Whole captures as columns."""
