"""The same member for asyncio: the same names with `async with`, `async for` and `await`.

Leadership is kept by the member's own thread, so an event loop that is blocked for a while loses nothing but time to notice:
the check stays right, and a body that runs past the end of its term is cancelled as soon as the event loop runs again.
"""

from pares.runtime.aio.consumer import Consumer
from pares.runtime.aio.member import Member
from pares.runtime.aio.term import Term

__all__ = ["Consumer", "Member", "Term"]
