"""Can a queue carry leadership? AMQP and SQS FIFO, on a real RabbitMQ and on ElasticMQ: what docs/neli.md#queues says of them.

python -m chaos.queues [--queue amqp|sqs] [--rounds N] [--json]
"""
