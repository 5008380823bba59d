"""A snapshot is compared with a reader's own world part by part; what both have in common is not hashed again. Its hash is the
one that its world has by itself, whatever the reader has read since, and hashed or not (R10)."""

from __future__ import annotations

import pytest
from core_authors import GROUP
from core_histories import Author, histories
from hypothesis import given
from hypothesis import strategies as st

from pares.core.wire.reader import Reader
from pares.core.wire.world import World

pytestmark = pytest.mark.usefixtures("short_memory")


@given(histories(least=40, most=160), st.booleans(), st.integers(1, 30))
def test_r10_a_snapshot_has_the_same_hash_beside_any_world(author: Author, lasting: bool, behind: int) -> None:
    reader, texts = Reader(GROUP, lasting=lasting), list[str]()
    reader.attach(0, 0)
    for entry in author.paper.entries:
        reader.feed([entry])
        texts.append(reader.world.dump())
        for text in (texts[-1], texts[-behind] if len(texts) >= behind else texts[0], texts[0]):
            beside = World.load(text, lasting=lasting, like=reader.world).digest()
            assert beside == World.load(text, lasting=lasting).digest()


@given(histories(least=40, most=160), st.booleans())
def test_r10_to_compare_leaves_the_readers_own_world_as_it_is(author: Author, lasting: bool) -> None:
    compared, alone = Reader(GROUP, lasting=lasting), Reader(GROUP, lasting=lasting)
    for reader in (compared, alone):
        reader.attach(0, 0)
    texts = list[str]()
    for entry in author.paper.entries:
        compared.feed([entry])
        alone.feed([entry])
        texts.append(alone.world.dump())
        World.load(texts[len(texts) // 2], lasting=lasting, like=compared.world).digest()
    assert compared.places == alone.places
    assert compared.world.dump() == alone.world.dump()
    assert compared.world.digest() == alone.world.digest()
