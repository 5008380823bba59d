"""A Django management command that any number of hosts may run, and one of them works: `python -m examples.shop_django`."""
