"""At home in other programs: a dissector and captures for Wireshark, and where its files go."""
