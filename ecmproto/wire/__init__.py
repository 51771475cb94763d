"""Codec for single frames: the declared formats, the encoder and decoder, and the Scapy layers."""
