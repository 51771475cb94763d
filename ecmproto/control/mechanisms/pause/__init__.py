"""PAUSE and PFC (802.3 Annexes 31B and 31D), which are two mechanisms."""
