"""How a consumer works on partitions that are divided: by ranges (C11), by keys (C12)."""
