"""Retry-After, both forms (RFC 9110 §10.2.3)."""


def retry_after_ms(value: str, now_ms: int, max_ms: int) -> int | None:
    """The wait that a server asks for, ms; None when it can't be read or asks for none."""
    text = value.strip()
    if text.isascii() and text.isdigit() and int(text[:12]) > 0:
        return min(int(text[:12]) * 1_000, max_ms)
    return None
