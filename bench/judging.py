"""What became of one crawl that was disturbed, held against one that was not, and against the server's own log."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from bench import proofs
from bench.killing import Kill, Ran, Setup
from bench.story import Again, Story, hold, read_story
from bench.weblog import Visit, courtesies, cut_short
from frontlog.avro.enums import State
from frontlog.avro.errors import FrontlogError


class Verdict(NamedTuple):
    """`faults`: what may not be. `again`: URLs that were asked for more than once, with the moves that the log has.
    `notes`: what may be and is worth a look, such as refused results of a process that had died."""

    kills: list[Kill]
    faults: list[str]
    again: list[Again]
    notes: list[str]
    facts: dict[str, Any]


class Undisturbed(NamedTuple):
    """What a crawl is held against: its `story` when nobody disturbed it, and the gap between two requests to a host.
    `bases`: scheme and authority of each host of the server's log."""

    story: Story
    gap_ms: int
    bases: dict[int, str]


def judge(
    usual: Undisturbed, at: Setup, kills: Sequence[Kill], ran: Ran, found: list[Visit], began_ms: int
) -> Verdict:
    """Everything that must hold at the end of a crawl, and of the copy at each kill."""
    faults = [text for one in kills for text in one.faults]
    summary = ran.said.summary
    if ran.code != 0 or summary is None or summary["end"] != "done":
        ended = summary["end"] if summary else ran.said.other[-3_000:]
        faults.append(f"the last run ended with code {ran.code}: {ended}")
    try:
        story = read_story(at.folder)
    except FrontlogError as error:
        return Verdict(list(kills), [*faults, f"the log can't be read: {error}"], [], [], {})
    held = hold(story, found, usual.bases, began_ms)
    least = courtesies(cut_short(found, (one.dead_ns for one in kills)))
    faults += proofs.compared(story, usual.story) + held.unleased
    faults += [f"asked twice: {one.url}: {one.fault}" for one in held.again if one.fault]
    faults += proofs.polite(least, usual.gap_ms)
    faults += proofs.archive(at.folder) + proofs.bodies(at.folder, story.rows)
    faults += proofs.folded(at.folder) + proofs.settled(at.folder, story) + proofs.verified(at.folder)
    for one in kills:
        faults += [f"at kill {one.number}: {text}" for text in _copy_faults(one)]
    facts = {
        "requests": held.requests,
        "asked_again": len(held.again),
        "owners": story.owners,
        "urls": len(story.rows),
        "fetched": sum(row.state is State.FETCHED for row in story.rows.values()),
        "outputs": len(story.outputs),
        "outputs_repeated": story.repeats,
        "rejects": len(story.rejects),
        "start_ms_min": min((c.start_ms for c in least), default=0),
        "gap_ms_min": min((c.gap_ms for c in least), default=0),
    }
    notes = [f"reject: {text}" for text in story.rejects]
    return Verdict(list(kills), faults, held.again, notes, facts)


def _copy_faults(one: Kill) -> list[str]:
    """What was left at a kill must be consistent by itself; its archive may end in a torn record."""
    if one.snapshot is None or one.left.decisions == 0:
        return []
    try:
        return proofs.folded(one.snapshot) + proofs.bodies(one.snapshot, read_story(one.snapshot).rows)
    except FrontlogError as error:
        return [f"the log can't be read: {error}"]


def told(name: str, verdict: Verdict) -> list[str]:
    """A crawl for people."""
    f = verdict.facts
    if not f:
        return [f"{name}: {len(verdict.kills)} kills", *(f"  FAULT {fault}" for fault in verdict.faults)]
    lines = [
        f"{name}: {len(verdict.kills)} kills, {f['owners']} owners; {f['requests']} requests, {f['fetched']} URLs fetched "
        f"of {f['urls']} known, {f['outputs']} outputs ({f['outputs_repeated']} of them twice), {f['rejects']} rejects",
        f"  by the server: {f['start_ms_min']:.2f} ms at least between two starts at a host, "
        f"{f['gap_ms_min']:.2f} ms from an answer to the next request; {f['asked_again']} URLs were asked for again "
        "(s since the crawl began)",
    ]
    lines += [f"    {one.url}: {one.moves}" for one in verdict.again]
    return lines + [f"  {note}" for note in verdict.notes] + [f"  FAULT {fault}" for fault in verdict.faults]
