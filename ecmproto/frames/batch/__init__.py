"""Compiled passes over batches of frames: what they are, their flows, their tags in and out."""
