"""QCN (Quantized Congestion Notification; S001, 802.1Q clauses 30-33)."""
