"""Tests of ecmproto.columns.text."""
