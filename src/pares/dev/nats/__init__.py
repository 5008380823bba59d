"""A real NATS on loopback."""
