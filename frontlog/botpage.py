"""The page that tells site owners about a crawler, made from its configuration.

What the configuration does not say is left as a marked gap for a person to fill in, and named by `gaps`.
"""

import html
from pathlib import Path
from string import Template

from frontlog.setting_checks import is_mail
from frontlog.streams.options import Config
from frontlog.wording import duration

TEMPLATE_FILE = Path(__file__).resolve().parent / "site" / "botpage.html"
_GAPS = {
    "identity.contact": "a mail address, or the URL of a page with one",
    "identity.purpose": "what the crawl is for, in a sentence or two",
    "identity.addresses": "the addresses or networks that you crawl from",
    "identity.reverse_dns": "the domain that the reverse DNS names of these addresses end in",
    "identity.info_url": "where this page will be, for the user agent",
}


def gaps(config: Config) -> list[str]:
    """Names of the settings that the page would need and that are not set."""
    identity = config.options.identity
    return [name for name in _GAPS if not getattr(identity, name.partition(".")[2])]


def render(config: Config) -> str:
    """The page as HTML."""
    identity, politeness = config.options.identity, config.settings.politeness
    domain = identity.reverse_dns
    example = next((text for text in identity.addresses if "/" not in text), "192.0.2.1")
    name = f"crawl-1.{domain}" if domain else "NAME"
    addresses = "".join(f"<li><code>{html.escape(text)}</code></li>\n" for text in identity.addresses)
    return Template(TEMPLATE_FILE.read_text(encoding="utf-8")).substitute(
        token=html.escape(config.settings.identity.token),
        user_agent=html.escape(config.user_agent),
        purpose=html.escape(identity.purpose) or _gap("identity.purpose"),
        gap=duration(politeness.gap_ms_min),
        factor=f"{politeness.gap_factor:g}",
        cache=duration(config.settings.robots.cache_ms_max),
        addresses=f"<ul>\n{addresses}</ul>" if addresses else f"<p>{_gap('identity.addresses')}</p>",
        verify=html.escape(
            f"$ host {example}\n... domain name pointer {name}\n$ host {name}\n... has address {example}"
        ),
        reverse_dns=html.escape(f".{domain}") if domain else _gap("identity.reverse_dns"),
        contact=_contact(identity.contact),
    )


def _gap(name: str) -> str:
    return f'<span class="todo">[{html.escape(_GAPS[name])}: {name} in frontlog.toml]</span>'


def _contact(contact: str) -> str:
    if not contact:
        return _gap("identity.contact")
    href = f"mailto:{contact}" if is_mail(contact) else contact
    return f'<a href="{html.escape(href)}">{html.escape(contact)}</a>'
