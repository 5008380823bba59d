"""Pulsar on this machine."""
