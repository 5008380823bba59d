"""A Celery application with one task that is due every half second. Its broker is a folder: the example needs no server."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from pares.frameworks.celery import send_token, token_of

FOLDER = os.environ.get("BEAT_FOLDER", "beat")
EVERY = 0.5

app = Celery("beat", broker="filesystem://")
app.conf.broker_transport_options = {
    "data_folder_in": f"{FOLDER}/messages",
    "data_folder_out": f"{FOLDER}/messages",
    "control_folder": f"{FOLDER}/control",
}
app.conf.beat_max_loop_interval = 0.2
app.conf.beat_schedule = {"report": {"task": "report", "schedule": EVERY}}
send_token()


@app.task(name="report", bind=True)
def report(self: Any) -> int | None:
    """What a worker would do, if the example had one: hand the token along with whatever it writes."""
    return token_of(self)
