"""What is read together lies together, in the order in which it is read."""

from hypothesis import given
from hypothesis import strategies as st

from frontlog.state import keys

HOSTS = st.sampled_from(["a.example", "b.example", "xn--bcher-kva.example", "127.0.0.1", "[2001:db8::1]"])
ORIGINS = st.builds(
    "{}://{}:{}".format,
    st.sampled_from(["http", "https"]),
    HOSTS,
    st.integers(1, 65_535) | st.sampled_from([80, 443]),
)
IDENTITIES = st.text(max_size=8).map(lambda path: "http://a.example/" + path)
TIMES = st.integers(0, keys.TIME_MAX) | st.sampled_from([0, 255, 256, keys.TIME_MAX])
URL_KEYS = st.binary(min_size=31, max_size=31)
HOST_IDS = st.binary(min_size=12, max_size=12)


def inside(key: bytes, prefix: bytes) -> bool:
    stop = keys.after(prefix)
    return prefix <= key and (stop is None or key < stop)


@given(st.lists(st.tuples(st.integers(0, 4), TIMES, st.binary(min_size=16, max_size=16)), max_size=10))
def test_what_an_origin_has_due_is_ordered_by_class_then_time_then_url(
    rows: list[tuple[int, int, bytes]],
) -> None:
    origin = keys.origin_id("http://a.example:80")
    made = {row: keys.due_key(origin + row[2], row[0], row[1]) for row in rows}
    assert [made[row] for row in sorted(rows)] == sorted(made[row] for row in rows)


@given(URL_KEYS, st.integers(0, 4), TIMES)
def test_a_due_key_says_what_it_was_made_of(url: bytes, priority: int, due_ms: int) -> None:
    key = keys.due_key(url, priority, due_ms)
    assert len(key) == 40
    assert keys.due_parts(key) == (priority, due_ms, url)
    assert inside(key, url[: keys.ORIGIN_ID_BYTES])


@given(st.lists(st.tuples(TIMES, HOST_IDS), max_size=10))
def test_hosts_are_ready_in_the_order_of_time(rows: list[tuple[int, bytes]]) -> None:
    made = [keys.ready_key(*row) for row in rows]
    assert sorted(made) == [keys.ready_key(*row) for row in sorted(rows)]
    assert all(len(key) == 20 for key in made)


@given(
    st.lists(st.tuples(TIMES, st.sampled_from([keys.LEASE_URL, keys.LEASE_ERRAND]), HOST_IDS), max_size=10)
)
def test_leases_end_in_the_order_of_time(rows: list[tuple[int, int, bytes]]) -> None:
    assert sorted(keys.lease_key(*row) for row in rows) == [keys.lease_key(*row) for row in sorted(rows)]


@given(ORIGINS)
def test_an_origin_is_found_again_in_its_id(origin_key: str) -> None:
    scheme, host, port = keys.split_origin_key(origin_key)
    assert f"{scheme}://{host}:{port}" == origin_key
    origin = keys.origin_id(origin_key)
    assert len(origin) == keys.ORIGIN_ID_BYTES
    assert origin == keys.host_id(host) + keys.origin_suffix(scheme, port)
    assert keys.origin_key_of(origin[keys.HOST_ID_BYTES :], host) == origin_key


def test_an_ipv6_host_keeps_its_brackets() -> None:
    assert keys.split_origin_key("https://[2001:db8::1]:8443") == ("https", "[2001:db8::1]", 8443)


@given(ORIGINS, ORIGINS)
def test_different_origins_and_hosts_have_different_ids(one: str, other: str) -> None:
    assert (one == other) == (keys.origin_id(one) == keys.origin_id(other))
    hosts = [keys.split_origin_key(key)[1] for key in (one, other)]
    assert (hosts[0] == hosts[1]) == (keys.host_id(hosts[0]) == keys.host_id(hosts[1]))


@given(ORIGINS, ORIGINS, IDENTITIES)
def test_the_urls_of_an_origin_and_the_origins_of_a_host_are_neighbours(
    one: str, other: str, identity: str
) -> None:
    key = keys.url_key(keys.origin_id(other), identity)
    assert len(key) == keys.ORIGIN_ID_BYTES + keys.URL_ID_BYTES
    assert inside(key, keys.origin_id(one)) == (one == other)
    hosts = [keys.split_origin_key(origin)[1] for origin in (one, other)]
    assert inside(keys.origin_id(other), keys.host_id(hosts[0])) == (hosts[0] == hosts[1])


@given(ORIGINS, IDENTITIES, IDENTITIES)
def test_different_identities_have_different_keys(origin_key: str, one: str, other: str) -> None:
    origin = keys.origin_id(origin_key)
    assert (one == other) == (keys.url_key(origin, one) == keys.url_key(origin, other))


BYTES = st.binary(max_size=4) | st.lists(st.sampled_from([0, 1, 254, 255]), max_size=4).map(bytes)


@given(BYTES, BYTES)
def test_after_is_the_end_of_a_prefix_and_not_one_key_more(prefix: bytes, key: bytes) -> None:
    assert inside(key, prefix) == key.startswith(prefix)
    assert inside(prefix + key, prefix)
    stop = keys.after(prefix)
    if stop is not None:
        assert not stop.startswith(prefix) and stop > prefix


def test_nothing_comes_after_the_last_prefix() -> None:
    assert keys.after(b"") is None
    assert keys.after(b"\xff\xff") is None
    assert keys.after(b"a\xff") == b"b"
