"""A Celery application with one task that is due every half second. Its broker is a folder: the example needs no server."""

from __future__ import annotations

import os

from celery import Celery

FOLDER = os.environ.get("BEAT_FOLDER", "beat")
EVERY = 0.5

app = Celery("beat", broker="filesystem://")
app.conf.broker_transport_options = {
    "data_folder_in": f"{FOLDER}/messages",
    "data_folder_out": f"{FOLDER}/messages",
    "control_folder": f"{FOLDER}/control",
}
app.conf.beat_max_loop_interval = 0.2
app.conf.beat_schedule = {
    "report": {"task": "report", "schedule": EVERY, "kwargs": {"token": int(os.environ.get("PARES_TOKEN", "0"))}}
}


@app.task(name="report")
def report(token: int) -> None:
    """What a worker would do, if the example had one."""
