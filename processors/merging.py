"""Which identity stands for a URL under the rules in force at its origin (`url_rules.py`), and why."""

from frontlog.avro.events import Merge
from frontlog.processors import canonical, url_rules
from frontlog.processors.settings import Settings
from frontlog.state import keys
from frontlog.state.rows import OriginRow
from frontlog.state.tables import Tables


def rules_at(settings: Settings, origin: OriginRow | None) -> url_rules.OriginRules:
    """The rules in force at an origin."""
    return url_rules.effective(settings.canonical.profile, origin.rules if origin is not None else "")


def under(rules: url_rules.OriginRules, found: canonical.Identity) -> canonical.Identity:
    """The identity under an origin's rules of a URL that the standards gave `found`; `found` itself if none fires."""
    if rules.trivial:
        return found
    return _standing(rules, found.identity) or found


def merge_of(rules: url_rules.OriginRules, url: str) -> Merge | None:
    """What stands for a URL, which is an identity by the standards; None: it stands for itself."""
    if rules.trivial:
        return None
    named = _standing(rules, url)
    if named is None:
        return None
    return Merge(
        into=named.identity, rules=tuple(one for one in named.rules_fired if one in url_rules.MERGING)
    )


def _standing(rules: url_rules.OriginRules, url: str) -> canonical.Identity | None:
    """The identity that stands for another; None: it stands for itself, as does a witness of rules that were learned."""
    named = canonical.identify(url, rules)
    if isinstance(named, canonical.Refused) or named.identity == url:
        return None  # a form that got too long is no better one
    if rules.firm is not None and url_rules.is_witness(url) and _standing(rules.firm, url) is None:
        return None
    return named


def identity_at(view: Tables, settings: Settings, found: canonical.Identity) -> canonical.Identity:
    """The identity of a URL that the standards gave `found`, under the rules in force at its origin."""
    return under(rules_at(settings, view.origins.get(keys.origin_id(found.origin_key))), found)
