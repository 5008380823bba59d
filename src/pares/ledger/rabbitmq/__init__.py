"""RabbitMQ streams as a ledger: a stream for each partition."""
