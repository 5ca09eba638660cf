"""How a fetch ended: what came, what broke it, and whether the caller gets an answer or a failure."""

from ipaddress import ip_address

from frontlog.avro.enums import Reason
from frontlog.fetch.decoding import LEFT, Decoded, DecodeStatus, decode
from frontlog.fetch.exchange import Exchange, Phase
from frontlog.fetch.failures import reason_of
from frontlog.fetch.http_types import FetchFailed, FetchResponse, Truncation
from frontlog.fetch.sniffing import sniff


class Ending:
    """How one fetch ended, as far as it is known."""

    def __init__(self) -> None:
        """All is well."""
        self.broken: tuple[Reason, str] | None = None
        self.peer_address = ""
        self.reused = False

    def check_peer(self, exchange: Exchange, peer_address: str | None, address: str) -> None:
        """The socket must be where the judge allowed it to be; anything else is refused, always."""
        self.peer_address = peer_address or self.peer_address
        if peer_address is None or peer_address == address:
            return
        if ip_address(peer_address) != ip_address(address):  # two spellings of one IPv6 address are equal
            exchange.failure = Reason.BLOCKED_NETWORK, f"connected to {peer_address}, not {address}"

    def explain(self, exchange: Exchange, exc: BaseException) -> None:
        """Note why a body is not whole. Raises FetchFailed when there is no head to keep."""
        ringing = exchange.rang
        if exchange.head is not None and exchange.failure is None:
            reason, detail = (Reason.TIMEOUT, "total") if ringing else reason_of(exc)
            exchange.truncated = Truncation.TIME if ringing else Truncation.DISCONNECT
            self.broken = (Reason.TRUNCATED if reason is Reason.CONNECTION_RESET else reason), detail
            return
        reason, detail = exchange.failure or ((Reason.TIMEOUT, "") if ringing else reason_of(exc))
        if reason is Reason.TIMEOUT:
            detail = exchange.phase if exchange.phase in (Phase.CONNECT, Phase.FIRST_BYTE) else "total"
        elif reason is Reason.CONNECTION_RESET:
            detail += f"; {exchange.head_bytes} bytes of a head"
            detail += "; on a kept connection" if self.reused else ""
        raise FetchFailed(reason, detail, exchange.timings()) from exc

    def response(self, exchange: Exchange, sending: bytes) -> FetchResponse:
        """What came, decoded and judged. Raises FetchFailed for an answer that is not wanted."""
        head, limits = exchange.head, exchange.limits
        assert head is not None
        timings = exchange.timings()
        body = b"".join(exchange.chunks)
        codings, fine = head.content_codings, 200 <= head.status < 300
        whole = body and exchange.truncated is None and self.broken is None and exchange.failure is None
        if codings in LEFT and fine and whole and head.media_type in limits.coded:
            decoded = Decoded(b"", DecodeStatus.LATER, (codings,))
        else:
            decoded = decode(body, codings, limits.decoded_bytes_max)
        media_type = head.media_type or sniff(decoded.data)
        if fine and media_type and not limits.wants(media_type):
            exchange.failure = exchange.failure or (Reason.BAD_TYPE, f"{media_type}, by its bytes")
        reason, detail = exchange.failure or self.broken or answer_reason(exchange.truncated, decoded)
        response = FetchResponse(
            head=head,
            request_head=sending,
            body=body,
            truncated=exchange.truncated,
            decoded=decoded,
            reason=reason,
            detail=detail,
            media_type=media_type,
            timings=timings,
            peer_address=self.peer_address,
            reused=self.reused,
        )
        if reason in (Reason.BAD_TYPE, Reason.BLOCKED_NETWORK):
            raise FetchFailed(reason, detail, timings, response if reason is Reason.BAD_TYPE else None)
        return response


def answer_reason(truncated: Truncation | None, decoded: Decoded) -> tuple[Reason, str]:
    """(reason, detail) of an answer whose connection did not break: the first thing wrong with its body."""
    if truncated is Truncation.LENGTH:
        return Reason.OVERSIZE, "body"
    match decoded.status:
        case DecodeStatus.OK | DecodeStatus.PLAIN_DESPITE_HEADER | DecodeStatus.LATER:
            return Reason.OK, ""
        case DecodeStatus.OVERSIZE:
            return Reason.OVERSIZE, "decoded body"
        case DecodeStatus.TRUNCATED:
            return Reason.TRUNCATED, "coded data ends early"
        case DecodeStatus.CORRUPT | DecodeStatus.UNKNOWN_ENCODING:
            return Reason.DECODE_FAILED, f"{decoded.status}: {', '.join(decoded.chain)}"
