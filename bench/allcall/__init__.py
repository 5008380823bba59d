"""ALLCALL on real nats-servers."""
