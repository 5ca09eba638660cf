"""Encodings: what decides, what is guessed, and how bytes become text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontlog.processors.codecs_whatwg import CODECS, decode_bytes, encode_query
from frontlog.processors.encoding import (
    GUESS_BYTES_MAX,
    Decision,
    decide,
    decode,
    guess,
    header_encoding,
    media_type,
    parser_source,
)
from frontlog.processors.encoding_labels import ENCODING_OF_LABEL, get_encoding
from frontlog.processors.prescan import PRESCAN_BYTES_MAX, charset_in_content, prescan

RUSSIAN = (
    "Российская академия наук сообщила о новых результатах исследований в области физики. Учёные считают, что "
    "полученные данные помогут лучше понять природу явления. "
)
JAPANESE = (
    "東京都は今日、新しい交通計画を発表しました。計画によると、来年から地下鉄の運行時間が延長されます。"
)
POLISH = (
    "Wczoraj wieczorem odbyło się spotkanie, na którym omówiono najważniejsze zagadnienia związane z rozwojem "
    "gospodarki. Wzięło w nim udział wielu gości, również z zagranicy. "
)
LATE = b"<!-- " + b"x" * PRESCAN_BYTES_MAX + b" -->"


@pytest.mark.parametrize(
    ("body", "content_type", "decision"),
    [
        (b"\xef\xbb\xbfa", "text/html; charset=koi8-r", Decision("utf-8", "bom", 3)),
        (b"\xfe\xff\0a", None, Decision("utf-16be", "bom", 2)),
        (b"\xff\xfea\0", None, Decision("utf-16le", "bom", 2)),
        (b"<meta charset=utf-8>", 'text/html;x=1; Charset="KOI8-R"', Decision("koi8-r", "header")),
        (b"<meta charset=utf-8>", "text/html; charset=nonsense", Decision("utf-8", "meta")),
        (b"<meta charset=utf-16le>", None, Decision("utf-8", "meta")),
        (b"<meta charset=x-user-defined>", None, Decision("windows-1252", "meta")),
        (b"a", "text/html; charset=utf-16", Decision("utf-16le", "header")),
        (b"<?xml version='1.0' encoding='iso-8859-2'?><p>", None, Decision("iso-8859-2", "meta")),
        (b"<\0?\0x\0m\0l\0", None, Decision("utf-16le", "meta")),
        (b"\0<\0?\0x\0m\0l", None, Decision("utf-16be", "meta")),
        # Behind the prescan's reach only an element of the tree counts, not the words of a script.
        (LATE + b"<meta charset=koi8-r>", None, Decision("koi8-r", "meta")),
        (
            LATE + b"<meta http-equiv=Content-Type content='a;charset=koi8-r'>",
            None,
            Decision("koi8-r", "meta"),
        ),
        (LATE + b"<script>'<meta charset=koi8-r>'</script>", None, Decision("windows-1252", "default")),
        (LATE + b"<meta charset=nonsense><meta charset=koi8-r>", None, Decision("koi8-r", "meta")),
        ("é".encode(), None, Decision("utf-8", "guess")),
        ("é".encode()[:1] + b"a", None, Decision("windows-1252", "default")),
        (b"plain", None, Decision("windows-1252", "default")),
        (b"", "", Decision("windows-1252", "default")),
    ],
)
def test_what_decides(body: bytes, content_type: str | None, decision: Decision) -> None:
    assert decide(body, content_type) == decision


def test_plain_text_declares_nothing() -> None:
    assert decide(b"<meta charset=koi8-r>", "text/plain", html=False).source == "default"


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        (RUSSIAN, "cp1251", "windows-1251"),
        (RUSSIAN, "koi8_r", "koi8-r"),
        (RUSSIAN, "cp866", "ibm866"),
        (JAPANESE, "shift_jis", "shift_jis"),
        (JAPANESE, "euc_jp", "euc-jp"),
        (JAPANESE, "iso2022_jp", "iso-2022-jp"),
        (POLISH, "iso8859_2", "iso-8859-2"),
        (RUSSIAN, "utf-8", "utf-8"),
    ],
)
def test_guesses(text: str, codec: str, name: str) -> None:
    body = b"<html><body class='a'><p>" + (text * 3).encode(codec) + b"</p></body></html>"
    assert decide(body) == Decision(name, "guess")
    assert decode(body, decide(body)) == (body.decode(codec), False)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "50 °C",
            "café",
            "naïve",
            "© 2026 Example. All rights reserved.",
            "it’s a “test” – yes",
            "São Paulo",
        ),
        "L'été dernier, les élèves ont été reçus à l'école où le préfet a présenté ses vœux. Ça a été agréable. "
        * 9,
    ],
)
def test_western_pages_stay_western(text: str) -> None:
    assert decide(text.encode("cp1252")).name == "windows-1252"


def test_a_cut_character_does_not_undo_utf8() -> None:
    assert guess((RUSSIAN * 2).encode()[:-3]) == "utf-8"


def test_statistics_start_where_the_text_does() -> None:
    body = b"<p>" * GUESS_BYTES_MAX + (RUSSIAN * 3).encode("cp1251")
    assert guess(body) == "windows-1251"


@given(st.binary(max_size=200))
def test_any_bytes_get_an_encoding_and_a_text(body: bytes) -> None:
    decision = decide(body)
    assert decision.name in {*CODECS, "replacement"}
    text, repaired = decode(body, decision)
    assert repaired or "\ufffd" not in text or decision.name.startswith(("utf-", "gb"))
    source, repaired_source = parser_source(body, decision)
    assert repaired_source == repaired
    assert (source if isinstance(source, str) else source.decode()) == text


@pytest.mark.parametrize("encoding", sorted(set(ENCODING_OF_LABEL.values())))
def test_every_encoding_decodes_and_encodes_ascii(encoding: str) -> None:
    text = "<a href='?b=c'>~d</a>\n"
    if encoding.startswith("utf-16"):
        assert decode_bytes(text.encode(encoding), encoding) == (text, False)
    elif encoding == "replacement":
        assert decode_bytes(b"x", encoding) == ("\ufffd", True)
        assert decode_bytes(b"", encoding) == ("", False)
    else:
        assert decode_bytes(text.encode(), encoding) == (text, False)
    assert encode_query("a=b", encoding) == b"a=b"


@pytest.mark.parametrize(
    ("encoding", "data", "text", "repaired"),
    [
        # What the standard's index has and Python's table lacks, or has otherwise.
        ("windows-1252", b"\x80\x81\x8d\x9d\xff", "\u20ac\x81\x8d\x9d\xff", False),
        ("windows-1253", b"\xd2\x81", "\ufffd\x81", True),
        ("windows-1255", b"\xca", "\u05ba", False),
        ("koi8-u", b"\xae\xbe", "\u045e\u040e", False),
        ("windows-874", b"\xdb", "\ufffd", True),
        ("iso-8859-8-i", b"\xe0", "\u05d0", False),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff", False),
        ("gbk", b"\xd6\xd0\xa2\xe3", "\u4e2d\u20ac", False),
        ("euc-kr", b"\xb0\xa1\x81\x41", "\uac00\uac02", False),
        ("shift_jis", b"\x87\x40\x81\x60", "\u2460\uff5e", False),
        ("euc-jp", b"\xad\xa1\xa5\xa2\xa1\xc1", "\u2460\u30a2\uff5e", False),
        ("euc-jp", b"\xff\xa5\xa2\xa9", "\ufffd\u30a2\ufffd", True),
        ("utf-8", b"\xf0\x9f\x98a\xff", "\ufffda\ufffd", True),
        ("utf-16le", b"a\x00\x00\xd8", "a\ufffd", True),
    ],
)
def test_decoding(encoding: str, data: bytes, text: str, repaired: bool) -> None:
    assert decode_bytes(data, encoding) == (text, repaired)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("text/html; charset=UTF-8", "utf-8"),
        ("text/html;charset='utf-8'", None),
        ("text/html; charset = utf-8", "utf-8"),
        ("text/html; charset=utf-8, text/html", "utf-8"),
        ('text/html; charset="utf-8"; a=b', "utf-8"),
        ("text/html; boundary=charset", None),
        ("text/html; charset=", None),
        ("text/html", None),
    ],
)
def test_headers(header: str, name: str | None) -> None:
    assert header_encoding(header) == name
    assert media_type(header) == "text/html"


def test_media_types() -> None:
    assert media_type(" Application/XHTML+xml ;q=1") == "application/xhtml+xml"
    assert media_type(None) == ""


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("text/html; charset=a", "a"),
        ("charset = 'a b' c", "a b"),
        ('charset="a', None),
        ("charset charset=a;b", "a"),
        ("charset=", None),
        ("charset", None),
        ("charset=a b", "a"),
    ],
)
def test_charset_in_content(content: str, label: str | None) -> None:
    assert charset_in_content(content) == label


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"<meta/charset=utf-8>", "utf-8"),
        (b"<META CHARSET\t=\n'UTF-8'>", "utf-8"),
        (b"<meta charset=a charset=utf-8>", None),
        (b"<meta content='a;charset=utf-8'>", None),
        (b"<meta content='a;charset=koi8-r' http-equiv=content-type>", "koi8-r"),
        (b"<meta content='charset=koi8-r' http-equiv=content-type charset=utf-8>", "utf-8"),
        (b"<metax charset=utf-8>", None),
        (b"<a title='<meta charset=utf-8>'>", None),
        (b"<!--><meta charset=utf-8>-->", "utf-8"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=utf-8>", "utf-8"),
        (b"<!doctype <meta charset=koi8-r><meta charset=utf-8>", "utf-8"),
        (b"<3 <meta charset=utf-8>", "utf-8"),
        (b"<meta charset=utf-8", None),
        (b"<meta", None),
        (b"<?xml encoding=x?>", None),
        (b"<?xml encoding='utf-16'?>", "utf-8"),
        (b"<?xml encoding='a b'?>", None),
        (b" <?xml encoding='koi8-r'?>", None),
        (b"<?xml encoding='koi8-r'", None),
    ],
)
def test_prescan(head: bytes, name: str | None) -> None:
    assert prescan(head) == name


PIECES = (
    *(
        b"<meta",
        b" charset=",
        b"charset",
        b"=",
        b"'utf-8'",
        b'"koi8-r"',
        b"gbk",
        b">",
        b"/>",
        b" ",
        b"\n",
        b"<!doctype html>",
    ),
    *(
        b"<html lang='x'>",
        b"<head>",
        b"<title>a</title>",
        b"<meta charset='utf-8'>",
        b"<META CHARSET=KOI8-R />",
    ),
    *(
        b"<meta name=viewport content='w; x'>",
        b"<!-- x -->",
        b" http-equiv=content-type",
        b"<meta name='a>b'>",
        b"</p>",
    ),
    *(
        b" content='text/html; charset=gbk'",
        b"<",
        b"\0",
        b"<a b=c d>",
        b"<meta charset=bogus>",
        b"<meta charset=utf-16>",
    ),
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
def test_prescan_reads_plainly_written_heads_as_all_others(head: bytes) -> None:
    # What is in front has attributes without a space between: only the standard's steps read that, not the pattern.
    assert prescan(b"<a b='c'd>" + head) == prescan(head)


def test_labels_are_ascii_and_trimmed() -> None:
    assert get_encoding(" Latin1\n") == "windows-1252"
    assert get_encoding("utf\u20118") is None
    assert get_encoding("\u00a0utf-8") is None
