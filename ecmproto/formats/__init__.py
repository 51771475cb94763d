"""What the octets of each format mean: one class a format, everything else reads it."""
