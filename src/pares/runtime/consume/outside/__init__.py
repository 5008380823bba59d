"""What others see of a consumer: the group offsets of a broker."""
