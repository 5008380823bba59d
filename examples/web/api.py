"""The same for FastAPI."""

from __future__ import annotations

from fastapi import FastAPI

from examples.web import asgi

app = FastAPI(lifespan=asgi.lifespan)
app.mount("/pares", asgi.lifespan.probes)
