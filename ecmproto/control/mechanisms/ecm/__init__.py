"""ECM, the Ethernet Congestion Manager (S000): one folder, one mechanism."""
