"""Inputs that can't be used: each gives a record on `rejects` that says what was wrong, and changes nothing."""

from frontlog.avro.enums import Reason, Topic
from frontlog.avro.events import Reject
from frontlog.processors.context import Context, Decided, Out

VALUE_BYTES_MAX = 4_096
DETAIL_CHARACTERS_MAX = 2_048


def reject(ctx: Context, key: str, reason: Reason, detail: str, value: bytes = b"") -> Decided:
    """Refuse the input that `ctx.cause` names."""
    event = Reject(
        topic=ctx.cause.topic,
        partition=ctx.cause.partition,
        offset=ctx.cause.offset,
        reason=reason,
        detail=detail[:DETAIL_CHARACTERS_MAX],
        value=value[:VALUE_BYTES_MAX],
        at_ms=ctx.now_ms,
    )
    return Decided(outputs=[Out(Topic.REJECTS, key, event)])
