"""Congestion points, reaction points and edges between real interfaces."""
