"""Integration with Wireshark: a dissector, capture sources, and the folders for its files."""
