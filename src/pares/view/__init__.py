"""What a group looks like to people: who holds what, since when, and why it moved.

It reads a ledger and nothing else, joins nothing, and writes nothing. The command line and the demo show what it finds.
"""

from pares.view.state import state
from pares.view.story import Move, Story, name_of, url_of
from pares.view.tenure_story import TenureStory, story_of

__all__ = ["Move", "Story", "TenureStory", "name_of", "state", "story_of", "url_of"]
