"""Mutants of the log, its inputs and outputs, the fold and the archive."""

# Mutants are made from within.
# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from msgspec.structs import replace

from frontlog.avro.enums import Reason, State
from frontlog.avro.events import Candidate, Event, HostTransition
from frontlog.fetch import archive, known_links, parse_job
from frontlog.processors import (
    content,
    discoveries,
    inputs,
    machine,
    outputs,
    politeness,
    results,
    urls,
)
from frontlog.processors.context import Context, Decided
from frontlog.state import digest, keys
from frontlog.state.tables import Tables
from frontlog.streams import fold, shard_runner
from frontlog.streams.emitter import ShardEmitter
from frontlog.streams.shard import Shard
from frontlog.streams.shard_runner import ShardRunner
from simulation.mutants import Mutant, Patch, always, entering
from simulation.plan import Fault, Weather

MUTANTS: list[Mutant] = []
mutant = entering(MUTANTS)


@mutant("each_input_once_in_order:0")
def the_position_is_not_noted(patch: Patch) -> None:
    patch.setattr(fold, "positions_of", always(()))


@mutant("nothing_leaks:0")
def the_outbox_is_not_delivered(patch: Patch) -> None:
    patch.setattr(Shard, "outbox", always([]))


@mutant("nothing_discovered_is_forgotten:2", [Fault.MISROUTE])
def an_input_for_another_partition_is_dropped(patch: Patch) -> None:
    decide = machine.decide

    def own(view: Tables, event: Event, ctx: Context) -> Iterator[Decided]:
        home = None if inputs.fault(event, ctx.partitions) else inputs.home(event, ctx.partitions)
        if home is None or home == ctx.partition:
            yield from decide(view, event, ctx)

    patch.setattr(machine, "decide", own)


@mutant("rebuilt_equals_live:0")
def the_digest_forgets_old_rows(patch: Patch) -> None:
    patch.setattr(digest.Digest, "remove", always(None))


@mutant("rebuilt_equals_live:0")
def the_fold_knows_more_than_the_log(patch: Patch) -> None:
    calls = count(1)

    def apply(tables: Tables, event: HostTransition) -> None:
        politeness.apply(tables, replace(event, clock=replace(event.clock, gap_ms=next(calls))))

    table: dict[type[Event], Callable[[Tables, Any], None]] = {**machine._APPLY, HostTransition: apply}
    patch.setattr(machine, "_APPLY", table)


@mutant("first_seen_once:18")
def every_link_looks_new(patch: Patch) -> None:
    one, unsettled = discoveries._one, discoveries._unsettled

    class Blind:
        """Tables whose `urls` are empty to who asks for a row."""

        def __init__(self, view: Any) -> None:
            self._view = view
            self.urls = self

        def get(self, _: bytes) -> None:
            return None

        def __getattr__(self, name: str) -> Any:
            return getattr(self._view, name)

    def unseen(view: Tables, *args: Any) -> Any:
        blind: Any = Blind(view)
        return one(blind, *args)

    def all_of_them(*args: Any, ordinary: bool) -> Any:
        return unsettled(*args, ordinary=False)

    patch.setattr(discoveries, "_unsettled", all_of_them)
    patch.setattr(discoveries, "_one", unseen)
    patch.setattr(urls, "_check", always(None))


@mutant("nothing_is_poison:0")
def a_machine_raises(patch: Patch) -> None:
    calls = count(1)
    first = discoveries._first

    def sometimes(*args: Any) -> Any:
        assert next(calls) % 5, "no machine may raise"
        return first(*args)

    patch.setattr(discoveries, "_first", sometimes)


@mutant("one_state_by_the_table:7")
def a_missing_page_is_as_good_as_new(patch: Patch) -> None:
    by_status = results._by_status

    def again(status: int, *args: Any) -> results.Outcome:
        return results.Outcome(State.DISCOVERED, Reason.GONE) if status == 404 else by_status(status, *args)

    patch.setattr(results, "_by_status", again)
    patch.setattr(urls, "TABLE", {**urls.TABLE, (State.LEASED, State.DISCOVERED): frozenset({Reason.GONE})})


@mutant("page_keeps_its_links:0")
def a_parser_takes_every_link_for_known(patch: Patch) -> None:
    def settled(_store: Any, _origin_key: str, url_keys: list[bytes], *_: Any) -> set[bytes]:
        return set(url_keys)

    patch.setattr(known_links, "settled_in", settled)


@mutant("page_keeps_its_links:0")
def links_are_not_waited_for(patch: Patch) -> None:
    send = ShardEmitter.discoveries
    later: set[asyncio.Task[None]] = set()

    async def soon(self: ShardEmitter, found: list[tuple[int, str, bytes]]) -> None:
        async def after_a_while() -> None:
            await asyncio.sleep(1)
            await send(self, found)

        later.add(asyncio.ensure_future(after_a_while()))

    patch.setattr(ShardEmitter, "discoveries", soon)


@mutant("page_keeps_its_links:0")
def links_are_dropped(patch: Patch) -> None:
    patch.setattr(parse_job, "parted", always([]))


@mutant("body_before_the_event:0")
def the_archive_is_not_synced(patch: Patch) -> None:
    write = archive.Archive._write

    class Unsynced:
        def __init__(self, out: Any) -> None:
            self.write, self.truncate, self.close = out.write, out.truncate, out.close

        def sync(self) -> None:
            return

    def careless(self: archive.Archive, segment: Any, number: int) -> None:
        if segment.out is None:
            segment.out = Unsynced(self._files.create(segment.name))
        write(self, segment, number)

    patch.setattr(archive.Archive, "_write", careless)


@mutant("archive_is_whole:11", [Fault.POWER, Fault.CRASH_WRITE])
def a_torn_segment_is_left(patch: Patch) -> None:
    patch.setattr(archive.Archive, "_mend", always(None))


@mutant("an_output_for_each_document:0")
def a_document_is_not_given_out(patch: Patch) -> None:
    patch.setattr(outputs, "decide", always(Decided()))


@mutant("output_has_a_document:0")
def a_page_is_given_out_that_content_did_not_decide(patch: Patch) -> None:
    decide = content.decide

    def silent(view: Tables, page: Candidate, ctx: Context) -> Decided:
        decided = decide(view, page, ctx)
        ctx.seq -= len(decided.decisions)
        return Decided(emissions=decided.emissions)

    patch.setattr(content, "decide", silent)


@mutant("document_of_a_candidate:3", [Fault.REPEAT])
def a_candidate_is_decided_again(patch: Patch) -> None:
    decide = content.decide

    def forgetful(view: Tables, page: Candidate, ctx: Context) -> Decided:
        key = keys.url_key(keys.origin_id(page.origin_key), page.url)
        row = view.url_content.get(key)
        if row is not None:
            view.url_content.put(key, replace(row, event_id="", last_seen_ms=0))
        return decide(view, page, ctx)

    patch.setattr(content, "decide", forgetful)


@mutant("withheld_is_not_given_out:13", [Fault.OPERATOR, Fault.REPEAT, Weather.ROBOTS])
def a_blocked_page_is_given_out(patch: Patch) -> None:
    patch.setattr(outputs, "WITHHELD", frozenset[State]())


@mutant("what_was_given_out_stands:1", [Fault.OPERATOR, Weather.ROBOTS])
def a_page_is_never_taken_back(patch: Patch) -> None:
    patch.setattr(outputs, "TAKEN_BACK", frozenset[Reason]())


@mutant("nothing_unexpected_is_raised:1", [Fault.FULL_LOG])
def a_full_disk_ends_the_crawl(patch: Patch) -> None:
    patch.setattr(shard_runner, "Retriable", ZeroDivisionError)


@mutant("it_ends:0")
def a_shard_never_rests(patch: Patch) -> None:
    patch.setattr(ShardRunner, "_rest_s", always(0.0))
