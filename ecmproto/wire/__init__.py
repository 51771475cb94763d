"""The octets of one frame: formats declared, the codec that reads and writes them, Scapy layers."""
