"""Interfaces and shared code of mechanisms, such as parameters, congestion points, messages and tags."""
