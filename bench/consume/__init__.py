"""Consumers, measured on a real Kafka beside what one would use instead."""
