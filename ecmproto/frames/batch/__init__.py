"""Compiled passes over batches of frames: classes, flows, tags and encapsulations."""
