"""What frameworks need of pares, a small module for each; import the one that you use.

- `asgi`: a member for as long as an application of Starlette or FastAPI lives, its work and its probes
- `apscheduler`: jobs in all of N workers, run where the member leads
- `celery`: a member in each prefork worker; the token of `pares run -- celery beat` in every message that beat sends
- `django`: a management command that any number of hosts may run
- `service`: an asyncio program that has no server

None of them adds a dependency: each stands on the framework that its user has anyway.
"""
