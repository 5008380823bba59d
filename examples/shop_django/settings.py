"""The least that Django needs."""

from __future__ import annotations

import os

SECRET_KEY = "of an example, which has no secrets"
INSTALLED_APPS = ["examples.shop_django"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DATABASE", "shop.db")}}
if url := os.environ.get("SHOP_POSTGRES"):
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.lstrip("/"),
            "USER": parts.username,
            "HOST": parts.hostname,
            "PORT": parts.port,
        }
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
PARES_LEDGER = os.environ.get("PARES_LEDGER", "sqlite:///group.db")
