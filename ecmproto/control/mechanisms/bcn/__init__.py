"""Enhanced BCN, backward congestion notification (S004): one folder, one mechanism."""
