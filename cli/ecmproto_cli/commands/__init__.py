"""The commands: each module exposes ``command``, and imports dependencies when called."""
