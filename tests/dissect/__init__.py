"""Tests of ecmproto.frames.dissect."""
