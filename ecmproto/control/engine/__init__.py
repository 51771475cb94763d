"""Ports, queues, links and stations, and the loop that runs them; what drives it brings the frames."""
