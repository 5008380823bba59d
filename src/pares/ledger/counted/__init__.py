"""Logs of services that give no offsets: what their records say so that readers can count."""
