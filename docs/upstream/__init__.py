"""Contributions to other projects."""
