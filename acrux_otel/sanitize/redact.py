# SPDX-License-Identifier: Apache-2.0
"""Masks secrets in text that is about to be recorded. Standard library only, besides `warn_once`.

Two rules find them: the name that a value goes by (``api_key``, ``Authorization``, …), as a dict key, in a
URL's query or in ``key=value`` text, and the well-known shapes of tokens (``sk-…``, JWTs, PEM blocks, …).
Every pattern takes time linear in the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final

from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MARGIN", "MASK", "Redactor"]

MASK: Final = "[REDACTED]"
MARGIN: Final = 512
"""How many characters after a cut the masks still look at."""

HARMLESS_LENGTH: Final = 15  # without ':' or '=', nothing shorter can hold a secret that we know

_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+").sub
_SECRET_NAME: Final = re.compile(
    r"""(?:^|_)(?:
        [a-z0-9]{0,40}(?:passwords?|passwd|passphrase|api_?keys?)
      | (?:db|user|smtp|mysql|postgres|pg|redis|ftp|http|admin|root)_?pass | pwd | passcode
      | (?:access|refresh|auth|id|session|bearer|api|csrf|xsrf|client|device|bot|user|security)_?tokens?
      | token
      | (?:client|app|consumer|shared|webhook)_?secrets? | secrets?
      | (?:access|secret|private|signing|encryption|account|shared|subscription|master|ssh|auth|service
          |session|hmac|storage_account)_?keys? | secret_access_key
      | (?:proxy_?)?authorization | auth | (?:basic|http|proxy)_auth | auth_header | bearer | jwt
      | (?:set_?)?cookies? | session_?cookie | sessionid | phpsessid | jsessionid | connect_sid
      | credentials?
      | (?:credit_?)?card_?number | credit_?card | cvv | cvc | ssn
    )\d{0,4}(?:_(?:v?\d{1,4}|value|str|string|text|plain|b64|base64|hash|header|prod|production|staging|dev|test
        |old|new))?_?\Z""",
    re.VERBOSE,
).search
# Tokens that are not credentials: of a tokenizer, of a page, of a parser.
_OTHER_TOKEN: Final = re.compile(
    r"(?:^|_)(?:page|next|previous|prev|continuation|sync|eos|bos|pad|unk|sep|cls|mask|stop|special|per|max|min"
    r"|first|last|num|cancellation|unexpected)_token\Z"
).search
_QUERY_NAMES: Final = frozenset(
    (
        "key",
        "sig",
        "signature",
        "auth",
        "hmac",
        "pass",
        "x-amz-signature",
        "x-amz-credential",
        "x-goog-signature",
    )
)
_STEM: Final = re.compile(
    "key|token|secret|pass|pwd|auth|cookie|credential|sess|sid|bearer|card|cvv|cvc|ssn|sig|hmac|jwt"
).search
_WHOLE_LINE: Final = ("authorization", "cookie")

_PAIR: Final = re.compile(
    r"(?<![A-Za-z0-9_.\-])"
    r"((?:(?i:api|access|secret|private|auth|client|credit|card) )?[A-Za-z0-9_.\-]{1,128})"
    r"""(?:\\{0,3}["'])?\]?[ \t]{0,8}(?:=>|[:=]{1,2})[ \t]{0,8}"""
).finditer
_VALUE: Final = re.compile(
    r"""\[REDACTED\]
      | \\{1,3}(?P<escaped>["'])(?:[^"'\\]|(?!(?P=escaped))["'])*(?:\\{1,3}(?P=escaped))?
      | [bBrRuUfF]{0,2}"[^"\\]*(?:\\.[^"\\]*)*"?
      | [bBrRuUfF]{0,2}'[^'\\]*(?:\\.[^'\\]*)*'?
      | [\[({][^\r\n]*
      | (?i:bearer|basic|token|digest)[ ]{1,4}[^\s,;&"'<>]+
      | [^\s,;&"'<>]+""",
    re.VERBOSE | re.DOTALL,
).match
_LINE: Final = re.compile(r"""\\{0,3}["'][^"'\r\n]*["']?|[^"'\r\n]*""").match
_NO_SECRET: Final = re.compile(
    r"(?:str|int|float|bool|bytes|object|Any|None|null|undefined|true|false|True|False)(?=[\s,;&)\]}|=\[\"'<>]|\Z)"
).match

_USERINFO: Final = re.compile(r"""(?<=://)[^\s/?#"'<>\\]{1,512}@""").sub
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{1,64}-----.*?(?:-----END [A-Z0-9 ]{1,64}-----|\Z)", re.DOTALL
).sub
_BEARER: Final = re.compile(
    r"(?i)\b(bearer|basic)[ ]{1,4}(?=[^\s,;\"'<>]{0,256}[0-9=])[A-Za-z0-9._~+/=\-]{8,}"
).sub
_CUT_JWT: Final = re.compile(r"(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{8,}\Z").sub
_SHAPES: Final = tuple(
    (literal, re.compile(pattern).sub)
    for literal, pattern in (
        ("sk-", r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_\-]{0,64}[0-9])[A-Za-z0-9_\-]{12,}"),
        ("k_live_", r"(?<![A-Za-z0-9])[psr]k_live_[A-Za-z0-9]{8,}"),
        ("k_test_", r"(?<![A-Za-z0-9])[psr]k_test_[A-Za-z0-9]{8,}"),
        ("gh", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{16,}"),
        ("github_pat_", r"github_pat_[A-Za-z0-9_]{16,}"),
        ("glpat-", r"glpat-[A-Za-z0-9_\-]{12,}"),
        ("xox", r"xox[abeoprs]-[A-Za-z0-9\-]{8,}"),
        ("AKIA", r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
        ("ASIA", r"(?<![A-Za-z0-9])ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
        ("AIza", r"AIza[A-Za-z0-9_\-]{30,}"),
        ("ya29.", r"ya29\.[A-Za-z0-9_\-.]{16,}"),
        ("hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}"),
        ("npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}"),
        ("pypi-", r"pypi-[A-Za-z0-9_\-]{30,}"),
        ("eyJ", r"(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*){1,4}"),
    )
)

_names: dict[str, bool] = {}


@final
class Redactor:
    """Masks what must not be recorded.

    Args:
        hook: ``hook(key, text)`` is called for each string after the default masks and returns the text to
            record; ``key`` is the innermost dict key, or what the text is (``errorDetail``, …). Long texts
            come cut, and those of a value that has to be cut may come twice. A hook that raises, or returns
            something else than a str, masks the text.
    """

    __slots__ = ("hook",)

    def __init__(self, hook: Callable[[str, str], str] | None = None) -> None:
        self.hook = hook

    def secret_key(self, key: str) -> bool:
        """Whether values that go by this name are masked wholly."""
        known = _names.get(key)
        return _learn(key) if known is None else known

    def mask(self, key: str, text: str, *, cut: bool = False) -> str:
        """``text`` with its secrets replaced by ``[REDACTED]``.

        Args:
            key: the name that the text goes by.
            text: the text, already cut to a bounded length.
            cut: whether more text followed, so that a secret may go on after the end: the last word is then
                dropped, up to `MARGIN` characters, unless it is a mask.
        """
        if self.secret_key(key):
            return MASK
        masked = self.mask_known(text, cut=cut)
        return masked if self.hook is None else self.apply_hook(key, masked)

    def mask_known(self, text: str, *, cut: bool = False) -> str:
        """The default masks alone; arguments as for `mask`."""
        if len(text) < HARMLESS_LENGTH and ":" not in text and "=" not in text and not cut:
            return text
        try:
            return _mask(text, cut)
        except Exception as problem:  # MemoryError, RecursionError
            warn_once("redact", "redaction failed (%s): the text is masked", type(problem).__name__)
            return MASK

    def apply_hook(self, key: str, text: str) -> str:
        """The user's hook alone; `MASK` where it fails."""
        if self.hook is None:
            return text
        try:
            made = self.hook(key, text)
            if isinstance(made, str):
                return str.__str__(made)
            problem = f"returned {type(made).__name__}, not str"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:
            problem = f"raised {type(raised).__name__}"
        warn_once("redact-hook", "the redact hook %s: the text is masked", problem)
        return MASK


def _learn(key: str) -> bool:
    secret = False
    if _STEM(key[-128:].lower()) is not None:
        name = _WORDS("_", key[-128:]).lower()
        secret = _SECRET_NAME(name) is not None and _OTHER_TOKEN(name) is None
    if len(key) <= 128:
        if len(_names) >= 2048:  # keys may be data
            _names.clear()
        _names[key] = secret
    return secret


def _mask(text: str, cut: bool) -> str:
    low = text.lower()
    if "-----BEGIN " in text:
        text = _PEM(MASK, text)
    if ":" in text or "=" in text:
        if "://" in text:
            text = _USERINFO(f"{MASK}@", text)
        if _STEM(low) is not None:
            text = _mask_pairs(text)
    for literal, sub in _SHAPES:
        if literal in text:
            text = sub(MASK, text)
    if "bearer " in low or "basic " in low:
        text = _BEARER(rf"\1 {MASK}", text)
    if cut:
        text = _CUT_JWT(MASK, text)
        if not text.endswith(MASK):
            tail = text[-MARGIN:]
            word = len(tail) - 1 - max(tail.rfind(" "), tail.rfind("\n"), tail.rfind("\t"))
            text = text[: len(text) - word]
    return text


def _mask_pairs(text: str) -> str:
    parts = []
    done = 0
    for pair in _PAIR(text):
        start = pair.end()
        if pair.start() < done:
            continue
        key = pair[1]
        secret = _names.get(key)
        if secret is None:
            secret = _learn(key)
        if not secret and not (
            text[pair.start() - 1 : pair.start()] in ("?", "&") and key.lower() in _QUERY_NAMES
        ):
            continue
        line = key.lower().endswith(_WHOLE_LINE)
        found = _LINE(text, start) if line else _VALUE(text, start)
        if found is None or found.end() == start:
            continue
        if _NO_SECRET(text, start) is not None:
            continue
        parts.append(text[done:start])
        parts.append(_in_quotes(found[0]))
        done = found.end()
    if not parts:
        return text
    parts.append(text[done:])
    return "".join(parts)


def _in_quotes(value: str) -> str:
    # Quotes are kept so that JSON and reprs inside a text still read as such.
    bare = value.lstrip("\\")
    quote = value[: len(value) - len(bare) + 1]
    if bare[:1] in ('"', "'"):
        return f"{quote}{MASK}{quote if len(bare) > 1 and value.endswith(quote) else ''}"
    return MASK
