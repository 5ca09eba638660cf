"""The running digest of a table depends on its rows alone.

Not verified: that nobody can make two tables with one digest on purpose; against forgers stands the log's chain.
"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from frontlog.state.digest import DIGEST_BYTES, Digest, recount, row_hash

Pairs = dict[bytes, bytes]
ROWS = st.dictionaries(st.binary(min_size=1, max_size=6), st.binary(max_size=6), max_size=8)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_count(rows: Pairs, random: Random) -> None:
    shuffled = list(rows.items())
    random.shuffle(shuffled)
    assert recount(shuffled).value() == recount(rows.items()).value()


@given(ROWS, ROWS)
def test_what_came_and_went_leaves_no_trace(stay: Pairs, go: Pairs) -> None:
    digest = Digest()
    for key, value in go.items():
        digest.remove(key, value)  # also before it came: the sum is modular
    for key, value in (*stay.items(), *go.items()):
        digest.add(key, value)
    assert digest.value() == recount(stay.items()).value()
    assert digest.rows == len(stay)


@given(ROWS, ROWS)
def test_different_rows_have_different_digests(one: Pairs, other: Pairs) -> None:
    assert (one == other) == (recount(one.items()).value() == recount(other.items()).value())


def test_where_a_key_ends_counts() -> None:
    assert row_hash(b"ab", b"c") != row_hash(b"a", b"bc")
    for length in (1, 255, 256):
        # A key that is 256 bytes longer has the same last byte of its length.
        row = bytes(700)
        cuts = [length, length + 256]
        assert row_hash(row[: cuts[0]], row[cuts[0] :]) != row_hash(row[: cuts[1]], row[cuts[1] :])


def test_every_cut_of_the_same_bytes_is_another_row() -> None:
    row = b"\xff\x01" * 300
    assert len({row_hash(row[:cut], row[cut:]) for cut in range(1, 512)}) == 511


def test_a_digest_has_sixteen_bytes_and_an_empty_one_is_zero() -> None:
    assert Digest().value() == bytes(DIGEST_BYTES)
    gone = Digest()
    gone.remove(b"k", b"v")
    assert len(gone.value()) == DIGEST_BYTES
    assert gone.rows == -1


def test_the_hash_of_a_row_never_changes() -> None:
    # Digests stand in the log: XXH3-128 of key length, key and value.
    assert f"{row_hash(b'key', b'value'):032x}" == "5cc26e6ed256a76f9342f91bf3578c61"
    assert f"{row_hash(b'k' * 300, b''):032x}" == "e67840fd861f22a3c02773060b977e42"


def test_a_copy_moves_apart() -> None:
    one = recount([(b"a", b"1")])
    other = one.copy()
    other.add(b"b", b"2")
    assert one.value() == recount([(b"a", b"1")]).value()
    assert other.rows == 2
