"""Tools for captures and frames: craft, check, compare, edit, fuzz, report."""
