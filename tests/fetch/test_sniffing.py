"""What bodies without a declared type look like."""

import pytest

from frontlog.fetch.sniffing import sniff


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"", ""),
        (b"<!doctype html>x", "text/html"),
        (b"\xef\xbb\xbf\r\n <HtMl lang=de>", "text/html"),
        (b"<p>x", "text/html"),
        (b"<p", "text/plain"),
        (b"<!-- x", "text/html"),
        (b"<head\n>", "text/html"),
        (b"<pre>x", "text/plain"),
        (b"<b/>", "text/html"),
        (b"<?xml version='1.0'?><rss/>", "text/xml"),
        (b"hello", "text/plain"),
        (b"hello <html>", "text/plain"),
        (b"\x1b[0m color", "text/plain"),
        (b"hello\0", "application/octet-stream"),
        (b"\xfe\xff\0h\0i", "text/plain"),
        (b"%PDF-1.7", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n...", "image/png"),
        (b"GIF89a...", "image/gif"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\1\2\3\4WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x18ftypmp42", "video/mp4"),
        (b"\x1f\x8b\x08\0", "application/x-gzip"),
        (b"PK\x03\x04", "application/zip"),
    ],
)
def test_sniff(data: bytes, media_type: str) -> None:
    assert sniff(data) == media_type


def test_only_the_first_bytes_count() -> None:
    assert sniff(b"a" * 1_445 + b"\0") == "text/plain"
    assert sniff(b"a" * 1_444 + b"\0") == "application/octet-stream"
