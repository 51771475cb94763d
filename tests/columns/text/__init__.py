"""Tests of ecmproto.frames.columns.text."""
