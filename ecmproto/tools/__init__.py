"""What people do with captures and frames: craft, check, compare, edit, fuzz, report."""
