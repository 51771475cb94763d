"""Ports, queues, links and stations, and the event loop that runs them."""
