"""QCN (S001, 802.1Q clauses 30-33)."""
