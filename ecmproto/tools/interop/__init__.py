"""Integration with Wireshark: a dissector, capture sources, and the Wireshark folders for the files."""
