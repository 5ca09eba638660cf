"""The whole machine: which `decide` an input goes to, which `apply` a decision goes to.

The live host, recovery, replay, what-if and tests call these two; nothing else decides or folds.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from frontlog.avro.codec import encode
from frontlog.avro.enums import FetchKind, Reason, Topic
from frontlog.avro.events import (
    Batch,
    Candidate,
    ContentVerdict,
    Control,
    CursorMoved,
    Discovery,
    Document,
    ErrandRequest,
    Event,
    FetchResult,
    HostTransition,
    LeaseExtension,
    OperatorPolicy,
    OwnershipTaken,
    PartitionPaused,
    RobotsPolicy,
    Signal,
    SiteLinked,
    Transition,
    UrlEvidence,
    UrlRule,
)
from frontlog.processors import (
    content,
    control,
    discoveries,
    inlinks,
    inputs,
    jobs,
    learning,
    lookups,
    outputs,
    partition,
    policy,
    politeness,
    results,
    robots_policy,
    tallies,
    url_policy,
    urls,
)
from frontlog.processors.context import Context, Decided, Emission
from frontlog.processors.rejects import reject
from frontlog.state import keys
from frontlog.state.tables import Tables


def decide(view: Tables, event: Event, ctx: Context) -> Iterator[Decided]:
    """Decide one input, in steps: each must be applied before the next is asked for."""
    fault = inputs.fault(event, ctx.partitions)
    home = inputs.home(event, ctx.partitions) if not fault else None
    if fault:
        yield reject(ctx, "", Reason.UNDECODABLE, f"a {type(event).__name__} {fault}", encode(event))
    elif home is not None and home != ctx.partition:
        # made with a tool that chose another partition: passed on, never dropped
        topic = Topic.named(ctx.cause.topic)
        yield Decided(emissions=[Emission(home, topic, inputs.key(event), event)])
    elif isinstance(event, Discovery):
        yield from discoveries.decide(view, event, ctx)
    elif isinstance(event, FetchResult):
        yield from _result(view, event, ctx)
    elif isinstance(event, ContentVerdict):
        yield outputs.decide(view, event, ctx)
        yield learning.decide(view, event, ctx)
    elif isinstance(event, Candidate):
        yield content.decide(view, event, ctx)
    elif isinstance(event, Control):
        yield from control.decide(view, event, ctx)
    elif isinstance(event, LeaseExtension):
        yield results.decide_extension(view, event, ctx)
    elif isinstance(event, ErrandRequest):
        yield robots_policy.decide_request(view, event, ctx)
    else:
        yield reject(ctx, "", Reason.UNDECODABLE, f"a {type(event).__name__} is no input")


def _result(view: Tables, event: FetchResult, ctx: Context) -> Iterator[Decided]:
    if event.kind is FetchKind.PAGE:
        yield results.decide(view, event, ctx)
    elif event.kind is FetchKind.RESOLVE:
        yield lookups.decide(view, event, ctx)
    else:
        yield from robots_policy.decide(view, event, ctx)


def _nothing(tables: Tables, event: Batch) -> None:
    """A Batch moves the head only, which the host does."""


_APPLY: dict[type[Event], Callable[[Tables, Any], None]] = {
    Transition: urls.apply,
    HostTransition: politeness.apply,
    RobotsPolicy: policy.apply_robots,
    OperatorPolicy: policy.apply_operator,
    OwnershipTaken: partition.apply_taken,
    PartitionPaused: partition.apply_paused,
    CursorMoved: jobs.apply,
    Document: content.apply,
    UrlRule: url_policy.apply,
    UrlEvidence: learning.apply,
    Signal: tallies.apply,
    SiteLinked: inlinks.apply,
    Batch: _nothing,
}


def look_ahead(tables: Tables, events: Iterable[Event]) -> None:
    """Read the rows of the URLs that decisions are about, all at once, before they are folded."""
    moves = [(keys.origin_id(e.origin_key), e.url) for e in events if isinstance(e, Transition)]
    tables.urls.look_up([tables.url_key(origin, url) for origin, url in moves])


def apply(tables: Tables, event: Event) -> None:
    """Fold one decision. Raises AssertionError for what no machine can have decided."""
    _APPLY[type(event)](tables, event)


def is_decision(event: Event) -> bool:
    """Whether an event is folded."""
    return type(event) in _APPLY
