"""The same for FastAPI."""

from __future__ import annotations

from fastapi import FastAPI

import pares
from examples.web import asgi

app = FastAPI(lifespan=asgi.lifespan)
app.mount("/pares", pares.health_app(lambda: asgi.member))
