"""Tests of ecmproto.table.text."""
