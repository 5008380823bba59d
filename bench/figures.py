"""How figures get into a document: between two marks, with the machine they come from."""

from __future__ import annotations

import os
import platform
from pathlib import Path

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def machine() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, {python}"


def put(file: Path, figures: str) -> None:
    """Puts them in the place of those between the marks. Raises `ValueError` if the file has not both marks, once each."""
    put_between(file, BEGIN, END, figures)


def put_between(file: Path, begin: str, end: str, figures: str) -> None:
    """The same, with marks of one's own."""
    text = file.read_text()
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"{file} must have the lines {begin} and {end}, once each, and in this order")
    file.write_text(f"{text.split(begin)[0]}{begin}\n{figures}\n{end}{text.split(end)[1]}")
