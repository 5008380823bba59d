"""What the history costs: audits of long logs, rules over Parquet, updates, and following a log. See docs/bench.md."""
