"""Integration into other programs: a dissector and captures for Wireshark, and the folders of its files."""
