"""Enhanced BCN (Backward Congestion Notification, S004)."""
