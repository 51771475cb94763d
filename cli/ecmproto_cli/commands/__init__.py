"""One file per command; each exposes ``command`` and imports its dependencies inside."""
