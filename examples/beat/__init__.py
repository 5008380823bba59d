"""Celery beat, which must run once, on as many hosts as you like: `python -m examples.beat`.

    pares run --role beat --group tasks -- celery -A examples.beat.app beat

Each host runs this command. One of them runs beat; it is stopped before another one may lead, and dies with its wrapper, also
when that is killed or frozen. Every task carries the token of the term in which it was sent (`PARES_TOKEN`). Beat's file of
last runs is on a disk that all share, so a successor goes on where its predecessor ended.
"""
