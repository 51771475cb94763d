"""Tests of the engine that replay and live drive."""
