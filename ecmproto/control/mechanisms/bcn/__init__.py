"""Enhanced BCN, backward congestion notification (S004)."""
