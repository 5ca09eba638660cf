"""The closed vocabularies of events: topics, URL states, reasons, kinds.

Each member's text is its documentation; `docs/reference/` is generated from these tables, and
`avro/*.avsc` carries the same symbols in the same order (a test compares them). Symbols may be
added at the end; a symbol is never renamed, moved or taken away, since old logs hold it.
"""

from enum import StrEnum
from typing import Self, cast


class Documented(StrEnum):
    """A string enum whose members carry a sentence of documentation."""

    doc: str

    def __new__(cls, value: str, doc: str) -> "Documented":
        """Build a member from its wire name and its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.doc = doc
        return member

    @classmethod
    def named(cls, value: str) -> Self:
        """The member with this wire name; raises KeyError."""
        return cast("Self", cls._value2member_map_[value])


class Topic(Documented):
    """Every topic of the log (DESIGN §2); the outputs keep their names under any prefix."""

    DISCOVERIES = "discoveries", "input: links that one page, seed list or sitemap gave to one origin"
    FETCH_RESULTS = "fetch-results", "input: one attempt to fetch a page, a robots.txt or an address"
    CONTROL = "control", "input: a wish of an operator or the API, Avro or JSON"
    CANDIDATES = "candidates", "input of content: a parsed document offered for dedupe"
    CONTENT_VERDICTS = "content-verdicts", "input: what content decided about a candidate"
    TRANSITIONS = "transitions", "decision: one URL moved to another state, or one host's clock moved"
    POLICIES = "policies", "decision: a new version of a policy, or a renewal of one"
    OWNERSHIP = "ownership", "decision: taken, batch, paused, resumed, cursor, fold changed"
    DOCUMENTS = "documents", "decision of content: first seen, seen again, near-duplicate, changed"
    FETCHED = "crawl.fetched", "output: one stored response"
    REMOVED = "crawl.removed", "output: a URL that is gone, newly disallowed or suppressed"
    CENSUS = "census", "how many hosts of an address a partition is using"
    REJECTS = "rejects", "inputs that could not be used, with the reason"


INPUT_TOPICS = (Topic.CONTROL, Topic.FETCH_RESULTS, Topic.CONTENT_VERDICTS, Topic.DISCOVERIES)
"""Inputs of a frontier partition, in the order in which a batch takes them."""
CONTENT_INPUT_TOPICS = (Topic.CANDIDATES,)
DECISION_TOPICS = (Topic.TRANSITIONS, Topic.POLICIES, Topic.OWNERSHIP)
CONTENT_DECISION_TOPICS = (Topic.DOCUMENTS, Topic.OWNERSHIP)
OUTPUT_TOPICS = (Topic.FETCHED, Topic.REMOVED, Topic.REJECTS)


class State(Documented):
    """Where a URL is (DESIGN §5); exactly one at any time."""

    NONE = "NONE", "not known: what a URL is before its first decision"
    DISCOVERED = "DISCOVERED", "seen for the first time, not yet admitted"
    ELIGIBLE = "ELIGIBLE", "may be claimed when its host's turn comes"
    LEASED = "LEASED", "claimed by a fetcher until the deadline of its lease"
    FETCHED = "FETCHED", "the last attempt brought an answer that counts"
    DEFERRED = "DEFERRED", "waits for its due time after an answer or failure that may pass"
    BLOCKED = "BLOCKED", "may not be fetched under the policy version in force"
    FAILED = "FAILED", "given up: a definite refusal, or too many attempts"
    QUARANTINED = "QUARANTINED", "parked: limits violated, or five failures of the URL itself in a row"
    SUPPRESSED = "SUPPRESSED", "opted out or under deletion: never fetched, never given out"
    GONE = "GONE", "confirmed 404 or 410"


class SourceKind(Documented):
    """Where a discovery came from."""

    SEED = "seed", "a seed given by a person or the API"
    PAGE = "page", "a link on a fetched page"
    REDIRECT = "redirect", "the target of a redirect"
    SITEMAP = "sitemap", "an entry of a sitemap"
    FEED = "feed", "an entry of an RSS or Atom feed"
    OPERATOR = "operator", "an operator's control record"
    SITEMAP_FILE = (
        "sitemap_file",
        "a sitemap itself: named by a robots.txt or an index, or asked for by a setting",
    )


class FetchKind(Documented):
    """What an attempt was for."""

    PAGE = "page", "a URL of the frontier"
    ROBOTS = "robots", "a robots.txt, or a hop of its redirects"
    RESOLVE = "resolve", "an address look-up; opens no connection to the host"
    PROBE = "probe", "a URL that should not exist, to learn the host's error page"


class HostEvent(Documented):
    """Why a host's clock moved without a URL moving."""

    ERRAND_WANTED = "errand_wanted", "a robots hop for another origin was queued at this host"
    ERRAND_LEASED = "errand_leased", "an errand (look-up, robots.txt) took the host's slot"
    ERRAND_ENDED = "errand_ended", "the errand's result was decided and the slot is free"
    ERRAND_EXPIRED = "errand_expired", "no result came before the deadline"
    ERRAND_RELEASED = "errand_released", "the process that held it is dead, or it handed it back"
    PARKED = "parked", "nothing of the host can be claimed before the new time"
    SLOWED = "slowed", "an operator's gap was set or taken away"
    PAUSED = "paused", "an operator paused the host"
    RESUMED = "resumed", "an operator resumed the host"


class ScopeKind(Documented):
    """What a policy covers, widest first."""

    CRAWL = "crawl", "every URL"
    SITE = "site", "a registrable domain with all its hosts"
    HOST = "host", "a host name with all its schemes and ports"
    ORIGIN = "origin", "scheme://host:port"
    URL = "url", "one URL"
    PARTITION = "partition", "every URL of one partition"


class PolicyAct(Documented):
    """What an operator's (or the configuration's) policy event does."""

    SETTINGS = "settings", "the settings that deciding uses, whole, as JSON"
    BLOCK = "block", "nothing of the scope may be fetched"
    UNBLOCK = "unblock", "takes a block away"
    PAUSE = "pause", "nothing of the scope is claimed for now; no URL changes its state"
    RESUME = "resume", "takes a pause away"
    SLOW = "slow", "a smallest gap between requests to a host"
    READMIT = "readmit", "rules of traps that do not hold for a host; those that it does not name hold again"


class RuleName(Documented):
    """A rule that may merge URLs of an origin further than the standards do (`processors/url_rules.py`)."""

    TRACKING_PARAMS = "tracking_params", "a parameter that only tells where a visitor came from is dropped"
    IGNORED_PARAMS = "ignored_params", "a parameter that does not change the answer is dropped"
    QUERY_ORDER = "query_order", "parameters are sorted, since their order says nothing"
    SLASH = "slash", "one of the two forms with and without a slash at the end stands for both"
    SCHEME = "scheme", "one of http and https stands for both"
    CANONICAL = "canonical", "rel=canonical of a page, where the text of both pages is the same"


class RuleAct(Documented):
    """What became of a rule at an origin."""

    PROPOSED = "proposed", "evidence speaks for it, not enough to apply it"
    APPLIED = "applied", "it is in force"
    REFUSED = "refused", "an operator does not want it: it is not in force and no evidence brings it back"
    WITHDRAWN = "withdrawn", "it is not in force; new evidence may bring it back"


class Weight(Documented):
    """What a piece of evidence says about a rule."""

    AGREES = "agrees", "it speaks for the rule"
    AGAINST = "against", "it speaks against the rule"
    NOTED = "noted", "nothing yet: what comes later is compared with it"


class RobotsState(Documented):
    """What is known of an origin's robots.txt (RFC 9309 §2.3.1)."""

    UNKNOWN = "unknown", "never fetched"
    RULES = "rules", "2xx: its rules are in force"
    ALLOW_ALL = "allow_all", "4xx: no restrictions"
    UNREACHABLE = "unreachable", "429, 5xx or network error: disallow for now, or the last good copy"


class Verdict(Documented):
    """What content decided about a document."""

    NEW = "new", "a text not seen before"
    SEEN = "seen", "the same text as another URL's"
    NEAR = "near", "nearly the text of another URL"
    CHANGED = "changed", "this URL's text changed to one not seen before"
    SAME = "same", "this URL's text is what it was"


class Reason(Documented):
    """Why a URL or host moved, a fetch failed or an input was refused. Closed; detail has its own field."""

    # how a URL became known, and how it moves on
    SEED = "seed", "given as a seed"
    REDIRECT = "redirect", "found as the target of a redirect"
    SITEMAP = "sitemap", "listed in a sitemap or feed, or named as one"
    OPERATOR = "operator", "an operator asked for it"
    ADMITTED = "admitted", "identity, scope, policy and priority allow it"
    CLAIMED = "claimed", "its host's turn came"
    OK = "ok", "a usable answer"
    NOT_MODIFIED = "not_modified", "304 to a conditional request"
    REDIRECTED = "redirected", "the answer points elsewhere; the target is a discovery of its own"
    DUE = "due", "its due time came"
    RECRAWL_DUE = "recrawl_due", "its recrawl time came"
    RECRAWL_FORCED = "recrawl_forced", "an operator asked for a new fetch"
    LEASE_EXPIRED = "lease_expired", "no result before the lease's deadline"
    RELEASED = "released", "the fetcher handed the lease back, or its process died"
    ADDRESS_CHANGED = "address_changed", "the host resolves to another address than the claim's"
    POLICY_ALLOWS = "policy_allows", "a newer policy version allows what an older one blocked"
    # gates (seed 000, chapter 6)
    BAD_SCHEME = "bad_scheme", "not http or https"
    BLOCKED_NETWORK = "blocked_network", "an address of the host is not public unicast"
    OUT_OF_SCOPE = "out_of_scope", "outside the seeds' scope, the patterns or the depth"
    ROBOTS_DENIED = "robots_denied", "robots.txt disallows it"
    SUPPRESSED = "suppressed", "opted out or under deletion"
    TLS_FAILED = "tls_failed", "the certificate or handshake could not be verified"
    OVERSIZE = "oversize", "more bytes than allowed, as received or decoded"
    BAD_TYPE = "bad_type", "a media type that is not wanted"
    TIMEOUT = "timeout", "connect, first byte or total time ran out; the detail says which"
    RETRIES_EXHAUSTED = "retries_exhausted", "the attempts allowed for a URL are used up"
    # other refusals
    OPERATOR_BLOCK = "operator_block", "an operator blocked its crawl, site, host or origin"
    MERGED = "merged", "another identity stands for it now"
    UNPARSABLE = "unparsable", "not a URL that the WHATWG parser accepts"
    TOO_LONG = "too_long", "an identity of more than 2,048 characters"
    USERINFO = "userinfo", "carries a user name or password"
    NO_HOST = "no_host", "has no host"
    TOO_MANY_REDIRECTS = "too_many_redirects", "more than five hops"
    REDIRECT_LOOP = "redirect_loop", "a requested spelling came a second time in a chain"
    BAD_LOCATION = "bad_location", "a redirect without a usable Location"
    # answers
    TOO_MANY_REQUESTS = "too_many_requests", "429: the whole host waits"
    UNAVAILABLE = "unavailable", "503: the whole host waits"
    SERVER_ERROR = "server_error", "another 5xx"
    NOT_AVAILABLE = "not_available", "401, 403 or another 4xx: not for us, never bypassed"
    GONE = "gone", "404 or 410"
    GONE_UNCONFIRMED = "gone_unconfirmed", "404 of a page that was there: looked at once more"
    UNEXPECTED_STATUS = "unexpected_status", "a status that no rule covers"
    # the network
    DNS_FAILED = "dns_failed", "the host has no address, or the look-up failed"
    CONNECTION_REFUSED = "connection_refused", "nothing listens there"
    CONNECTION_RESET = "connection_reset", "the connection broke before an answer"
    NO_ROUTE = "no_route", "the network has no way to the address"
    PROTOCOL_ERROR = "protocol_error", "the answer is not HTTP"
    HEADER_OVERSIZE = "header_oversize", "more header bytes than allowed"
    DECODE_FAILED = "decode_failed", "the content coding could not be undone"
    TRUNCATED = "truncated", "the body ended before its end"
    # parking
    REPEATED_FAILURES = "repeated_failures", "five failures of the URL itself in a row"
    PARSER_LIMIT = "parser_limit", "the parser exceeded its time or memory"
    HOST_PAUSED = "host_paused", "ten failures of the host in a row: a day of rest"
    ROBOTS_UNREACHABLE = "robots_unreachable", "robots.txt cannot be had: disallowed for now"
    CRAWL_DELAY_TOO_LONG = "crawl_delay_too_long", "a Crawl-delay above an hour waits for an operator"
    PAUSED = "paused", "paused by an operator"
    # inputs that change nothing
    STALE_FENCE = "stale_fence", "a result whose fence is not the row's"
    UNKNOWN_URL = "unknown_url", "a result or wish for a URL that is not known"
    UNDECODABLE = "undecodable", "the record's bytes are not an event that this version reads"
    BAD_CONTROL = "bad_control", "a control record that cannot be followed; the detail says why"
    NOT_ALLOWED = "not_allowed", "a transition that the table does not have"
    # start and stop
    STARTED = "started", "the owner started"
    WORKER_LOST = "worker_lost", "the process that was parsing it died"
    STORE_FULL = "store_full", "the archive or log had no room"
    EXTENDED = "extended", "the fetcher asked for more time"
    # sitemaps
    CROSS_SITE = (
        "cross_site",
        "a sitemap of another site lists it, and the robots.txt of its origin names none of those",
    )
    # traps and budgets (docs/identity.md)
    TRAP_PARAMETERS = "trap_parameters", "a trap: more query parameters than allowed"
    TRAP_DEPTH = "trap_depth", "a trap: more path segments than allowed"
    TRAP_REPETITION = "trap_repetition", "a trap: path segments that come again and again"
    TRAP_ENCODING = "trap_encoding", "a trap: escapes that were escaped again and again"
    TRAP_CALENDAR = "trap_calendar", "a trap: a date further ahead than allowed"
    TRAP_PATTERN = "trap_pattern", "a trap: as many URLs of its origin as allowed have the same pattern"
    HOST_BUDGET = "host_budget", "as many pages of its host as allowed were fetched"
    SITE_BUDGET = "site_budget", "as many pages of its site as its links from other sites allow were fetched"
    READMITTED = "readmitted", "the rule of traps that refused it was lifted for it or its host"


def closed_enums() -> "dict[str, type[Documented]]":
    """Every enum that an event field has, by its Avro name."""
    return {c.__name__: c for c in Documented.__subclasses__() if c is not Topic}
