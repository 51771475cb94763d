"""The octets of one frame: declared formats, the codec that reads and writes them, Scapy layers."""
