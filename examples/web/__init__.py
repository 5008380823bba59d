"""N web workers, and one of them runs the jobs: under gunicorn (with and without --preload), uvicorn, and without a server.

    python -m examples.web [gunicorn] [preload] [uvicorn] [fastapi] [asyncio] [script] [run]

starts three workers, and then ends the one that leads, again and again, as a deploy does; each time another one leads, and the
server starts a worker in the place of the one that went. It prints for how long nobody led, from the group's own log, and
who ran the job. `jobs.py` is what runs once; `gunicorn_conf.py` and `asgi.py` are all that a server needs of pares.
"""
