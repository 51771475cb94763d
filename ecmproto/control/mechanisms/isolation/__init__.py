"""Congestion isolation, as in IEEE 802.1Qcz; the rules and octets are this project's choice."""
