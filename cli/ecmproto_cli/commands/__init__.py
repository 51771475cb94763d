"""One file per command; each exposes ``command`` and imports what it needs inside."""
