"""A real Kafka on loopback."""
