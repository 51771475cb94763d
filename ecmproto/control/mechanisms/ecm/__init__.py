"""ECM, the Ethernet Congestion Manager (S000)."""
