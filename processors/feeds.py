"""What an entry of a sitemap or feed says, read from its element; nothing is resolved or judged here.

| entry | page | date |
|---|---|---|
| `url` of a sitemap | `loc` | `lastmod`, else the `publication_date` of `news` |
| `sitemap` of an index | `loc` | `lastmod` |
| `item` of RSS 0.9 to 2.0, RDF too | `link`, else a `guid` that is a permalink | `pubDate`, `date`, `updated` ... |
| `entry` of Atom 0.3 and 1.0 | `link` with `rel` alternate, or without `rel` | `updated`, `modified`, `published` ... |

Names are local names: a namespace may have any prefix, be the default, or be forgotten; but only an entry's
own children count, since an image has a `loc`, too. `xhtml:link` with `rel=alternate` (hreflang) in a
`url`, and further alternate links of an `entry`, are entries of their own.
Images, videos, enclosures and players are not pages and are left alone.
"""

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from lxml import etree

Element: TypeAlias = etree._Element  # pyright: ignore[reportPrivateUsage]  # lxml has no public name for it

PAGE, NEWS, ALTERNATE, CHILD = "page", "news", "alternate", "sitemap"
ATOM_DATES = ("updated", "modified", "published", "issued", "created")
RSS_DATES = ("pubDate", "date", "updated", "modified", "published")


class Found(NamedTuple):
    """An entry as it is written, white space trimmed. `base` is its xml:base, empty without one."""

    loc: str
    kind: str = PAGE
    date: str = ""
    changefreq: str = ""
    priority: str = ""
    base: str = ""
    fault: str = ""
    """What keeps `loc` from being used, for people."""


@lru_cache(maxsize=1_024)
def _local(tag: object) -> str:
    # The stubs say that a tag is text, but that of what isn't an element is a function.
    return tag[max(tag.rfind("}"), tag.rfind(":")) + 1 :] if isinstance(tag, str) else ""


def local_name(element: Element) -> str:
    """Name without namespace or prefix; empty for what isn't an element."""
    return _local(element.tag)


def read_url(url: Element) -> list[Found]:
    """The page of a `url` element, and its alternates."""
    said: dict[str, Element] = {}
    alternates: list[Found] = []
    locs = 0
    kind, published = PAGE, ""
    for child in url:
        name = local_name(child)
        if name == "link":
            alternates += _alternate(child)
        elif name == "news":
            kind = NEWS
            published = next(
                (_text(fact) for fact in child if local_name(fact) == "publication_date"), published
            )
        else:
            locs += name == "loc"
            said.setdefault(name, child)
    loc, fault = _plain(said.get("loc"))
    return [
        Found(
            loc=loc,
            kind=kind,
            date=_said(said, "lastmod") or published,
            changefreq=_said(said, "changefreq"),
            priority=_said(said, "priority"),
            fault=fault or ("more than one loc: the first is taken" if locs > 1 else ""),
        ),
        *alternates,
    ]


def read_sitemap(sitemap: Element) -> list[Found]:
    """The sitemap that an index names."""
    return [found._replace(kind=CHILD) for found in read_url(sitemap)[:1]]


def read_item(item: Element) -> list[Found]:
    """The page of an RSS item."""
    said: dict[str, Element] = {}
    links: list[str] = []
    fault = ""
    for child in item:
        name = local_name(child)
        if name == "link":
            href, broken = (child.get("href") or "").strip(), ""
            if not href:
                href, broken = _plain(child)
            elif (child.get("rel") or "alternate").lower() != "alternate":
                continue
            fault = fault or broken
            links += [href] if href else []
        else:
            said.setdefault(name, child)
    guid = said.get("guid")
    if not links and guid is not None and (guid.get("isPermaLink") or "true").strip().lower() == "true":
        links = [text] if (text := _text(guid)).lower().startswith(("http://", "https://")) else []
    date = next((text for name in RSS_DATES if (text := _said(said, name))), "")
    return [Found(links[0] if links else "", date=date, base=_base(item), fault=fault)]


def read_entry(entry: Element) -> list[Found]:
    """The page of an Atom entry, and its other forms."""
    said: dict[str, Element] = {}
    links: list[Found] = []
    for child in entry:
        if local_name(child) == "link":
            links += _alternate(child, rel="alternate")
        else:
            said.setdefault(local_name(child), child)
    date = next((text for name in ATOM_DATES if (text := _said(said, name))), "")
    first = links[0] if links else Found("", base=_base(entry))
    return [first._replace(kind=PAGE, date=date), *links[1:]]


def _alternate(link: Element, rel: str = "") -> list[Found]:
    """What a link element points at, if it is another form of its entry; `rel` stands for a missing one."""
    rels = (link.get("rel") or rel).lower().split()
    href = (link.get("href") or "").strip()
    return [Found(href, ALTERNATE, base=_base(link))] if href and "alternate" in rels else []


def _plain(element: Element | None) -> tuple[str, str]:
    """(text of an element, what is wrong with it): markup inside says that it is not what was meant."""
    if element is None:
        return "", ""
    return ("", f"markup inside {local_name(element)}") if len(element) else (_text(element), "")


def _text(element: Element) -> str:
    return (element.text or "").strip()


def _said(said: dict[str, Element], name: str) -> str:
    element = said.get(name)
    return "" if element is None else _text(element)


def _base(element: Element) -> str:
    """xml:base of an element and of those around it, joined; the document has no URL of its own here."""
    return element.base or ""
