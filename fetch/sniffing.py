"""What a body without a usable Content-Type looks like (WHATWG MIME Sniffing §7.1, what a crawler meets).

Only consulted when a server declares nothing: a declared type is believed, as the standard's
`no-sniff` path does, since guessing over a declaration makes text files into pages.
"""

RESOURCE_HEADER_BYTES = 1445
WHITE_SPACE = b"\t\n\x0c\r "
TAG_ENDS = b" >\t\n\x0c\r/"
HTML_TAGS = (
    b"<!DOCTYPE HTML", b"<HTML", b"<HEAD", b"<SCRIPT", b"<IFRAME", b"<H1", b"<DIV", b"<FONT", b"<TABLE",
    b"<A", b"<STYLE", b"<TITLE", b"<B", b"<BODY", b"<BR", b"<P",
)  # fmt: skip
MAGIC = (
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"\xfe\xff", "text/plain"),
    (b"\xff\xfe", "text/plain"),
    (b"\xef\xbb\xbf", "text/plain"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"BM", "image/bmp"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"OggS\x00", "application/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"\x1f\x8b\x08", "application/x-gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07", "application/x-rar-compressed"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
)
BINARY_BYTES = frozenset((*range(0x09), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)))


def sniff(data: bytes) -> str:
    """The media type that the first bytes of a decoded body look like; empty for no bytes."""
    head = data[:RESOURCE_HEADER_BYTES]
    if not head:
        return ""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(WHITE_SPACE)
    if text.startswith(b"<?xml"):
        return "text/xml"
    if text.startswith(b"<!--"):
        return "text/html"
    start = text[:16].upper()
    for tag in HTML_TAGS:
        if start.startswith(tag) and text[len(tag) : len(tag) + 1] in TAG_END_BYTES:
            return "text/html"
    for magic, media_type in MAGIC:
        if head.startswith(magic):
            return media_type
    if head[:4] == b"RIFF" and head[8:14] == b"WEBPVP":
        return "image/webp"
    if head[4:8] == b"ftyp":
        return "video/mp4"
    return "application/octet-stream" if BINARY_BYTES.intersection(head) else "text/plain"


TAG_END_BYTES = frozenset(TAG_ENDS[i : i + 1] for i in range(len(TAG_ENDS)))
