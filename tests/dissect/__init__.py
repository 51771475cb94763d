"""Tests of ecmproto.dissect."""
