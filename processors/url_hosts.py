"""Host names that may be meant to look like others: labels that mix scripts (UTS 39 §5).

`аpple.com` with a Cyrillic `а` is another name than `apple.com` and stays one; it is flagged for a person.
The script of a letter is read from its Unicode name, which tells the scripts of domain names apart.
Not seen: a label wholly in another script that looks Latin.
"""

import unicodedata

# Scripts that are written together: each set may appear in one label, with Latin or without.
_TOGETHER = (
    frozenset({"CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"CJK", "BOPOMOFO"}),
    frozenset({"CJK", "HANGUL"}),
)
_MEANS = {"IDEOGRAPHIC": "CJK", "KATAKANA-HIRAGANA": "", "MODIFIER": "", "COMBINING": ""}


def mixed_script(host: str) -> bool:
    """Whether a label of an ASCII host name stands for letters of scripts that aren't written together."""
    return "xn--" in host and any(_mixes(label) for label in host.split("."))


def _mixes(label: str) -> bool:
    if not label.startswith("xn--"):
        return False
    try:
        letters = label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return False
    scripts = {_script(c) for c in letters if c.isalpha()} - {""}
    if len(scripts) < 2:
        return False
    return not any(scripts - {"LATIN"} <= together for together in _TOGETHER)


def _script(letter: str) -> str:
    """First word of the letter's name, `LATIN` or `CYRILLIC` for example; empty where it tells no script."""
    word = unicodedata.name(letter, "").partition(" ")[0]
    return _MEANS.get(word, word)
