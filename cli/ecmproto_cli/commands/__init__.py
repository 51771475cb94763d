"""The commands, with one module each; each module exposes ``command`` and imports dependencies when
called.
"""
