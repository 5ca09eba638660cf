"""Path patterns of robots.txt (RFC 9309 §2.2.2, §2.2.3): one spelling for both sides, then the longest match.

Rules first:

- Matching compares octets of the path and query, case-sensitive, from the first octet on.
- `*` stands for any octets, `$` at the end of a pattern for the end of the path; other `$` are plain
  octets.
- The longest pattern wins, counted in octets after folding with its `*` and `$`; at equal length allow
  wins.

Folding gives one spelling to what §2.2.2 calls equal. Octets outside ASCII, and ASCII that no URI may hold
as it is, are percent-encoded; hex digits are upper case; an escaped unreserved octet is decoded. The RFC
also wants reserved octets encoded on both sides, so `:` and `%3A` are equal (they are decoded here, which
compares the same and keeps pattern lengths natural). Two octets keep their escaped form apart, because they
give a URI its shape: `/a%2Fb` is not `/a/b`, and `/a%3Fb` has no query. Inside a query they have no such
role, and the RFC's own table makes `?u=https://x` equal to `?u=https%3A%2F%2Fx`: a path whose query holds
`%2F` or `%3F` is therefore matched in two spellings. `*` and `$` of a path are written `%2A` and `%24`, so
only a pattern's own wildcards are wildcards. A `%` that starts no escape stays.

How it works: patterns that are plain prefixes (nearly all) lie sorted, each knowing the longest other
prefix inside it and the best rule up to there; one bisection and a few jumps answer them. Patterns that end
in `$` lie in a dict. The rest, those with a `*` in the middle, are tried longest first; when there are
many, each is filed under its rarest run of four, two or one octets, and only those whose run occurs in the
path are tried, their longest piece first. Where many share their rarest run they are filed once more, under
the next. No pattern is ever turned into a regular expression: a try is a chain of `str.find` from left to
right, linear in the path.

What it can't bound better than a try for each rule: thousands of middle wildcards that share all their
runs.
"""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_RESERVED_FOLDED: Final = frozenset(b":[]@!&'()+,;=")
"""Reserved octets (RFC 3986 §2.2) whose escaped and plain forms compare equal; `/?#*$` are treated apart."""
_FOLDED: Final = _UNRESERVED | _RESERVED_FOLDED

_PLAIN = r"A-Za-z0-9\-._~:\[\]@!&'()+,;=/?"
_PLAIN_PATH = re.compile(rf"[{_PLAIN}]*+").fullmatch
_PLAIN_PATTERN = re.compile(rf"[{_PLAIN}*]*+\$?").fullmatch

_HEX_DIGITS = "0123456789ABCDEFabcdef"
_ESCAPES: Final = {
    high + low: chr(octet) if (octet := int(high + low, 16)) in _FOLDED else f"%{octet:02X}"
    for high in _HEX_DIGITS
    for low in _HEX_DIGITS
}
"""For each two hex digits, what stands for that escape once folded."""


def _quoting(kept: frozenset[int]) -> tuple[str, ...]:
    return tuple(chr(octet) if octet in kept else f"%{octet:02X}" for octet in range(256))


_QUOTED_PATH: Final = _quoting(_FOLDED | frozenset(b"/?%"))
_QUOTED_PATTERN: Final = _quoting(_FOLDED | frozenset(b"/?%*"))

RULES_IN_TURN_MAX: Final = 16
"""Up to so many middle wildcards are simply tried in turn."""
SHELF_RULES_MAX: Final = 32
"""More rules that share their rarest run are filed once more."""
SHELVES_DEEP_MAX: Final = 3
_RUNS: Final[tuple[tuple[int, Literal["I", "H", "B"]], ...]] = ((4, "I"), (2, "H"), (1, "B"))
"""Lengths of the runs that rules are filed under, in octets, and the machine integers that hold them. A folded path has no
octet 0, so runs of different lengths are different integers."""
_RULES_PER_RUN_MAX: Final = 4
"""A run that more rules have is given up for a shorter one that is rarer, if there is one."""
_RARER_TIMES: Final = 4
"""How much rarer: a shorter run occurs in more paths."""


def _fold_escapes(text: str) -> str:
    """Give every escape its one spelling; a `%` that starts none stays."""
    first, *rest = text.split("%")
    spelling = _ESCAPES.get
    return first + "".join([(spelling(piece[:2]) or "%" + piece[:2]) + piece[2:] for piece in rest])


def _fold_query(text: str, start: int) -> str:
    return text[:start] + text[start:].replace("%2F", "/").replace("%3F", "?")


def fold_path(target: str) -> str:
    """The one spelling of a path with its query, without fragment. Never raises."""
    if _PLAIN_PATH(target):
        return target
    octets = target.encode("utf-8", "surrogatepass")
    return _fold_escapes("".join(map(_QUOTED_PATH.__getitem__, octets)))


def path_spellings(path: str) -> tuple[str, ...]:
    """A folded path, and a second spelling if its query holds an escaped `/` or `?` (RFC 9309 §2.2.2)."""
    query = path.find("?")
    if query < 0 or ("%2F" not in path and "%3F" not in path):
        return (path,)
    second = _fold_query(path, query)
    return (path,) if second == path else (path, second)


def fold_pattern(octets: bytes) -> tuple[str, ...]:
    """The one spelling of a rule's pattern, or two if it isn't UTF-8.

    A pattern in Latin-1 speaks of its octets, and also of the same letters in UTF-8 (§2.2.2: implementors may
    bridge encoding mismatches): the site's links may be written either way.
    """
    text = octets.decode("latin-1")
    if _PLAIN_PATTERN(text):
        return (text,)
    anchor = "$" if octets.endswith(b"$") else ""
    octets = octets.removesuffix(b"$")
    spellings = [octets]
    if not octets.isascii() and not _is_utf8(octets):
        spellings.append(octets.decode("latin-1").encode("utf-8"))
    folded: list[str] = []
    for spelling in spellings:
        whole = _fold_escapes("".join(map(_QUOTED_PATTERN.__getitem__, spelling)))
        query = whole.find("?")
        folded.append((whole if query < 0 else _fold_query(whole, query)) + anchor)
    return tuple(folded)


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class Wild(NamedTuple):
    """A pattern with a `*` that matters: what comes first, what follows in order, what ends the path."""

    head: str
    parts: tuple[str, ...]
    tail: str
    anchored: bool

    def matches(self, path: str) -> bool:
        """Whether a folded path has it all in order; the leftmost find leaves most for those after it."""
        if not path.startswith(self.head):
            return False
        at = len(self.head)
        for part in self.parts:
            at = path.find(part, at)
            if at < 0:
                return False
            at += len(part)
        tail = self.tail
        return not self.anchored or (len(path) - len(tail) >= at and path.endswith(tail))

    def runs(self, size: int) -> set[bytes]:
        """All runs of `size` octets that a matching path must hold."""
        texts = [text.encode() for text in (self.head, *self.parts, self.tail)]
        return {text[at : at + size] for text in texts for at in range(len(text) - size + 1)}


class Filed(NamedTuple):
    """A pattern among others, with its key. A path without its longest `needle` needs no closer look."""

    key: int
    needle: str
    wild: Wild


_POSITION_BITS = 32
_POSITION_MASK = (1 << _POSITION_BITS) - 1


def _key(length: int, allow: bool, position: int) -> int:
    """Greater is better: more octets, then allow, then the earlier rule of the file."""
    return (length * 2 + allow) << _POSITION_BITS | (_POSITION_MASK - position)


class RuleIndex:
    """The rules of one group, ready for matching. Immutable once made."""

    def __init__(self, rules: Sequence[tuple[bytes, bool]]) -> None:
        """Index `rules`: patterns as the file has them, starting with `/` or `*`, and their allow flags."""
        prefixes: dict[str, int] = {}
        self._exact: dict[str, int] = {}
        wild: dict[Wild, int] = {}
        for position, (octets, allow) in enumerate(rules):
            for pattern in fold_pattern(octets):
                key = _key(len(pattern), allow, position)
                anchored = pattern.endswith("$")
                pieces = pattern.removesuffix("$").split("*")
                if len(pieces) > 1 and not pieces[-1]:
                    anchored = False  # `*` or `*$` at the end asks for nothing
                head, *others = pieces
                parts = tuple(filter(None, others))
                if parts:
                    tail = parts[-1] if anchored else ""
                    shape = Wild(head, parts[:-1] if anchored else parts, tail, anchored)
                    wild[shape] = max(wild.get(shape, 0), key)
                elif anchored and not others:
                    self._exact[head] = max(self._exact.get(head, 0), key)
                else:
                    prefixes[head] = max(prefixes.get(head, 0), key)
        self._index_prefixes(prefixes)
        filed = [Filed(key, max((*shape.parts, shape.tail), key=len), shape) for shape, key in wild.items()]
        self._wild = _Shelf(sorted(filed, reverse=True))

    def _index_prefixes(self, prefixes: dict[str, int]) -> None:
        self._prefixes = sorted(prefixes)
        self._parents: list[int] = []
        self._jumps: list[int] = []
        self._best: list[int] = []
        depths: list[int] = []
        chain: list[int] = []
        for at, prefix in enumerate(self._prefixes):
            while chain and not prefix.startswith(self._prefixes[chain[-1]]):
                chain.pop()
            up = chain[-1] if chain else -1
            # Each node also points some way further up, so that a chain is searched in its logarithm: as far
            # as the parent's last two jumps together when those were equally long, else just to the parent.
            jump = up
            if up >= 0 and (far := self._jumps[up]) >= 0 and (farther := self._jumps[far]) >= 0:
                jump = farther if depths[up] - depths[far] == depths[far] - depths[farther] else up
            self._parents.append(up)
            self._jumps.append(jump)
            self._best.append(max(prefixes[prefix], self._best[up] if up >= 0 else 0))
            depths.append(len(chain))
            chain.append(at)

    def best(self, path: str) -> int:
        """Position of the rule that decides a folded path; -1: none matches."""
        key = 0
        for spelling in path_spellings(path):
            key = max(key, self._best_key(spelling))
        return _POSITION_MASK - (key & _POSITION_MASK) if key else -1

    def _best_key(self, path: str) -> int:
        best = self._exact.get(path, 0)
        # Every prefix of the path sorts at or before it, and all that sorts between shares that prefix.
        prefixes = self._prefixes
        at = bisect_right(prefixes, path) - 1
        while at >= 0 and not path.startswith(prefixes[at]):
            jump = self._jumps[at]
            at = jump if jump >= 0 and not path.startswith(prefixes[jump]) else self._parents[at]
        if at >= 0:
            best = max(best, self._best[at])
        return self._wild.best(path, best)


def _windows(path: str, sizes: Iterable[tuple[int, Literal["I", "H", "B"]]]) -> Iterator[Iterable[int]]:
    """All runs of a path as integers."""
    octets = memoryview(path.encode())
    for size, code in sizes:
        for start in range(size):
            end = len(octets) - (len(octets) - start) % size
            if end > start:
                yield octets[start:end].cast(code)


class _Shelf:
    """Patterns, best first: a few, tried in turn, and others filed under a run that a path of theirs must hold."""

    __slots__ = ("_deep", "_filed", "_in_turn", "_runs", "_sizes")

    def __init__(self, rules: list[Filed], used: frozenset[bytes] = frozenset()) -> None:
        """File `rules`, which all are under the runs `used` already."""
        self._in_turn = rules
        self._filed: dict[int, list[Filed]] = {}
        self._deep: dict[int, _Shelf] = {}
        self._sizes: list[tuple[int, Literal["I", "H", "B"]]] = []
        if len(rules) > RULES_IN_TURN_MAX:
            under: dict[bytes, list[Filed]] = {}
            for rule, run in zip(rules, _rarest_runs(rules, used), strict=True):
                under.setdefault(run, []).append(rule)
            self._in_turn = under.pop(b"", [])
            for run, some in under.items():
                number = int.from_bytes(run, sys.byteorder)
                if len(some) > SHELF_RULES_MAX and len(used) + 1 < SHELVES_DEEP_MAX:
                    self._deep[number] = _Shelf(some, used | {run})
                else:
                    self._filed[number] = some
            lengths = {len(run) for run in under}
            self._sizes = [(size, code) for size, code in _RUNS if size in lengths]
        self._runs = frozenset((*self._filed, *self._deep))

    def best(self, path: str, best: int) -> int:
        """The best key among `best` and the rules that match."""
        if self._in_turn:
            best = _first_match(self._in_turn, path, best)
        if self._sizes:
            found: list[int] = []
            for window in _windows(path, self._sizes):
                found += self._runs.intersection(window)
            if found:
                best = self._among(found, path, best, frozenset())
        return best

    def _among(self, found: Iterable[int], path: str, best: int, held: frozenset[int]) -> int:
        """The same of what is filed under the runs `found`; `held` are all runs of the path, once they were wanted."""
        for run in found:
            some = self._filed.get(run)
            if some is not None:
                best = _first_match(some, path, best)
                continue
            held = held or frozenset[int]().union(*_windows(path, _RUNS))
            shelf = self._deep[run]
            best = _first_match(shelf._in_turn, path, best)
            best = shelf._among(shelf._runs & held, path, best, held)
        return best


def _rarest_runs(rules: Sequence[Filed], used: frozenset[bytes]) -> list[bytes]:
    """For each rule the run that it is filed under; empty: it has no other than those `used`."""
    chosen = [b""] * len(rules)
    rules_with = [len(rules) * _RARER_TIMES] * len(rules)
    for size, _ in _RUNS:
        asking = [at for at, count in enumerate(rules_with) if count > _RULES_PER_RUN_MAX]
        runs = [rules[at].wild.runs(size) - used for at in asking]
        counts: Counter[bytes] = Counter()
        for some in runs:
            counts.update(some)
        for at, some in zip(asking, runs, strict=True):
            run = min(some, key=counts.__getitem__, default=b"")
            if run and (not chosen[at] or counts[run] * _RARER_TIMES <= rules_with[at]):
                chosen[at], rules_with[at] = run, counts[run]
    return chosen


def _first_match(rules: Iterable[Filed], path: str, best: int) -> int:
    """The best key among `best` and the rules that match; `rules` come best first."""
    for key, needle, wild in rules:
        if key <= best:
            break
        if needle in path and wild.matches(path):
            return key
    return best
