"""How numbers, times and counts are said to people, and the lines of a summary and a status.

Everything here is text from plain values: no terminal, no clock. Sizes are decimal (kB = 1000 bytes).
"""

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from frontlog.avro.enums import PolicyAct, Reason, State
from frontlog.replay.shapes import Act, Rule, SitemapStatus, Status, Tally
from frontlog.streams.summary import End, Phase, Progress, StateCount, Summary, WaitingHost

HOSTS_SHOWN = 5
SITEMAPS_SHOWN = 3
GAP_MS_USUAL = 5_000
_STATES = (
    (State.FETCHED, "fetched"),
    (State.ELIGIBLE, "to fetch"),
    (State.LEASED, "in flight"),
    (State.DISCOVERED, "discovered"),
    (State.DEFERRED, "deferred"),
    (State.BLOCKED, "blocked"),
    (State.GONE, "gone"),
    (State.FAILED, "failed"),
    (State.QUARANTINED, "quarantined"),
    (State.SUPPRESSED, "suppressed"),
)
_PHASES = {
    Phase.STARTING: "starting",
    Phase.FOLDING: "folding the log",
    Phase.CRAWLING: "crawling",
    Phase.FINISHING: "finishing",
    Phase.STORE_FULL: "no room: waiting for some",
}


def size(count: int) -> str:
    """`412 kB`; two figures below 10."""
    if count < 1_000:
        return f"{count} bytes"
    amount, units = count / 1_000, ["TB", "GB", "MB"]
    unit = "kB"
    while amount >= 999.5 and units:
        amount, unit = amount / 1_000, units.pop()
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"


def duration(ms: int) -> str:
    """`0.4 s`, `31 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`."""
    if ms < 9_950:
        return f"{ms / 1_000:.1f}".removesuffix(".0") + " s"
    seconds = round(ms / 1_000)
    for unit, length, small, part in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"


def moment(ms: int) -> str:
    """A time in UTC, to the millisecond, as ISO 8601 writes it."""
    return (
        datetime.fromtimestamp(ms / 1_000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def many(count: int, what: str) -> str:
    """`1 host`, `1,234 hosts`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def by_reason(counts: Iterable[StateCount]) -> str:
    """`out_of_scope 5, robots_denied 4`, the most frequent first."""
    ordered = sorted(counts, key=lambda count: (-count.urls, count.reason))
    return ", ".join(f"{count.reason} {count.urls:,}" for count in ordered)


def total(counts: Iterable[StateCount], *states: State) -> int:
    """How many URLs are in these states."""
    return sum(count.urls for count in counts if count.state in states)


def count_lines(counts: Sequence[StateCount]) -> list[str]:
    """A line for each state that has URLs."""
    lines: list[str] = []
    for state, word in _STATES:
        here = [count for count in counts if count.state is state and count.urls]
        if here:
            lines.append(f"  {word:<12}{total(here, state):>7,}  {by_reason(here)}")
    return lines or ["  no URL is known yet"]


def waiting_line(host: WaitingHost, now_ms: int) -> str:
    """Which host waits, how long and why."""
    until = (
        f"for {duration(max(0, host.until_ms - now_ms))}, until {moment(host.until_ms)[11:19]} UTC"
        if host.until_ms
        else "for an operator"
    )
    detail = f" ({host.detail})" if host.detail else ""
    urls = f", {many(host.urls, 'URL')}" if host.urls else ""
    return f"{host.host} waits {until}: {host.reason}{detail}{urls}"


def worth_saying(hosts: Sequence[WaitingHost], now_ms: int) -> list[WaitingHost]:
    """The hosts that wait for more than the usual gap between two requests."""
    return [
        host
        for host in hosts
        if host.reason is not Reason.DUE or not host.until_ms or host.until_ms > now_ms + GAP_MS_USUAL
    ]


def waiting_lines(hosts: Sequence[WaitingHost], count: int, now_ms: int) -> list[str]:
    """The hosts that wait, a few by name; `count` counts them all, those that `hosts` lacks too."""
    found = worth_saying(hosts, now_ms)
    more = count - len(hosts) + len(found[HOSTS_SHOWN:])
    lines = [f"  {waiting_line(host, now_ms)}" for host in found[:HOSTS_SHOWN]]
    return lines + ([f"  and {many(more, 'host')} more"] if more > 0 else [])


def progress_line(progress: Progress) -> str:
    """The one line that a person watches."""
    waiting = total(progress.counts, State.ELIGIBLE, State.DEFERRED, State.DISCOVERED)
    refused = total(progress.counts, State.BLOCKED)
    parts = [
        f"{_PHASES[progress.phase]} {duration(progress.elapsed_ms)}",
        f"{many(progress.pages_run, 'page')} ({progress.pages_per_s:.1f}/s)",
        f"{progress.in_flight} in flight",
        f"{waiting:,} to fetch on {many(progress.hosts, 'host')}",
        f"{refused:,} blocked",
        f"{size(progress.wire_bytes_run)} received",
        f"log {size(progress.log_bytes)}",
        f"archive {size(progress.archive_bytes)}",
        *([progress.detail] if progress.detail else []),
    ]
    return " · ".join(parts)


def command(*words: str | Path) -> str:
    """A command line that can be pasted into a shell."""
    return shlex.join(str(word) for word in words)


def next_commands(summary: Summary, folder: Path, again: str = "crawl") -> list[str]:
    """The three commands worth trying after a crawl; `again` is the one that goes on with it."""
    example = summary.example_url
    fetched = total(summary.counts, State.FETCHED)
    firsts: dict[End, list[str | Path]] = {
        End.STOPPED: [again, "--out", folder],
        End.STOPPED_NOW: [again, "--out", folder],
        End.PAGES_MAX: [again, "--out", folder, "--max-pages", str(2 * max(fetched, 500))],
        End.PATIENCE: ["status", "-C", folder],
        End.PAUSED: ["status", "-C", folder],
        End.DONE: ["tail", "crawl.fetched", "-C", folder],
    }
    first = firsts[summary.end]
    second = ["explain", example, "-C", folder] if example else ["tail", "transitions", "-C", folder]
    return [command("frontlog", *words) for words in (first, second, ["verify", folder])]


def summary_lines(summary: Summary, folder: Path, again: str = "crawl") -> list[str]:
    """What a run brought, in a few lines, and what to try next."""
    elapsed_ms = max(1, summary.ended_ms - summary.started_ms)
    rate = summary.pages_run * 1_000 / elapsed_ms
    lines = [
        f"Crawl ended after {duration(elapsed_ms)}: {summary.end.doc}.",
        f"  this run: {many(summary.pages_run, 'page')}, {rate:.1f}/s, {size(summary.wire_bytes_run)}",
        "  all runs, URLs by state and reason:",
        *count_lines(summary.counts),
    ]
    if summary.documents:
        same = f", {many(summary.duplicates, 'URL')} with the text of another" if summary.duplicates else ""
        lines.append(f"  documents   {summary.documents:>7,}  distinct texts{same}")
    if summary.rejects:
        lines.append(f"  rejects     {summary.rejects:>7,}  inputs that could not be used")
    lines += waiting_lines(summary.waiting, summary.waiting_hosts, summary.ended_ms)
    if not summary.pages_run and any(count.reason is Reason.BLOCKED_NETWORK for count in summary.counts):
        lines.append("  to crawl a network of your own, give its URL again with --allow-addresses CIDR")
    lines.append(
        f"  log {size(summary.log_bytes)}, archive {size(summary.archive_bytes)} in "
        f"{many(summary.archive_files, 'WARC file')}, in {folder}"
    )
    return [*lines, "Next:", *(f"  {line}" for line in next_commands(summary, folder, again))]


def act_line(act: Act) -> str:
    """An operator's act that is in force."""
    what = f"{act.act} --gap {act.gap_ms / 1_000:g}" if act.act is PolicyAct.SLOW else str(act.act)
    who = f", by {act.actor}" if act.actor else ""
    why = f": {act.note}" if act.note else ""
    return f"  {what} {act.scope_kind} {act.scope}".rstrip() + f" since {moment(act.at_ms)}{who}{why}"


def sitemap_lines(said: SitemapStatus) -> list[str]:
    """Sitemaps and feeds: how many were read, what they list, what was wrong with some."""
    if not said.files:
        return []
    wrong = f", {said.faulty:,} with faults" if said.faulty else ""
    lines = [f"  sitemaps    {said.files:>7,}  {said.read:,} read, {many(said.urls, 'URL')} listed{wrong}"]
    return [*lines, *(f"    {url}: {fault}" for url, fault in said.shown[:SITEMAPS_SHOWN])]


def signal_line(tally: Tally) -> str:
    """A rule that merged or refused much at once."""
    what = command("frontlog", "collisions", "--rule", tally.name, "--origin", tally.origin_key)
    return (
        f"Signal: {tally.name} took {tally.total:,} URLs of {tally.origin_key}, many of them within an hour of "
        f"{moment(tally.signalled_ms)}; see {what}"
    )


def withdrawn_line(rule: Rule) -> str:
    """A learned rule that the crawl took back."""
    named = f"{rule.rule.value}={rule.value}" if rule.value else rule.rule.value
    what = command("frontlog", "rules", "--origin", rule.origin_key)
    return (
        f"Withdrawn: {named} at {rule.origin_key}, which was learned, on {moment(rule.at_ms)}; "
        f"{many(rule.against, 'answer')} spoke against it and {rule.agreeing:,} for it; see {what}"
    )


def status_lines(status: Status) -> list[str]:
    """How a crawl stands."""
    running = f"running, process {status.pid}" if status.running else "not running"
    lines = [f"{status.folder}: {running}, {many(status.hosts, 'host')}, durability {status.durability}"]
    lines += count_lines(status.counts)
    if status.documents:
        lines.append(f"  documents   {status.documents:>7,}  distinct texts")
    lines += sitemap_lines(status.sitemaps)
    if status.rejects:
        lines.append(f"  rejects     {status.rejects:>7,}  inputs that could not be used")
    if status.waiting_hosts:
        lines.append(f"Hosts that wait: {status.waiting_hosts:,}")
        lines += waiting_lines(status.waiting, status.waiting_hosts, status.at_ms)
    if status.acts:
        lines.append("Operators' acts in force:")
        lines += [act_line(act) for act in status.acts]
    lines += [signal_line(one) for one in status.signals]
    lines += [withdrawn_line(one) for one in status.withdrawn]
    lines.append("Partitions:")
    for part in status.partitions:
        paused = ", paused" if part.paused else ""
        lines.append(
            f"  {part.shard or part.partition}: seq {part.seq:,}, owner token {part.owner_token}, "
            f"{many(part.inputs_waiting, 'input')} waiting{paused}"
        )
    lines.append(
        f"Log {size(status.log_bytes)}, archive {size(status.archive_bytes)} in "
        f"{many(status.archive_files, 'WARC file')}."
    )
    return lines
