"""At home in other programs: Wireshark's dissector, captures that it takes from here, and where its files go."""
