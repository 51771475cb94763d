"""At home in other programs: Wireshark's dissector, and where its files go."""
