"""The keys of [identity]: the OpenID Connect provider that vouches for people. They promise nothing."""

import re
from urllib.parse import urlsplit

from sfumato.policy.kinds import Default, Hashed, PolicyKey, Required, Section, Text
from sfumato.policy.server_settings import Identity

_CLAIM = re.compile(r"claims(\.[A-Za-z0-9_:/-]{1,100}){1,4}")
_LOCAL = ("127.0.0.1", "::1", "localhost")


def is_provider_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
    return secure and bool(parts.hostname) and not (parts.query or parts.fragment or parts.username)


IDENTITY = Section(
    (
        PolicyKey(
            "issuer",
            Text(
                500,
                is_provider_address,
                "It is the address of the provider, with https and without a query.",
                'Write for example issuer = "https://login.example.org/".',
            ),
            Required("Tokens are accepted from one provider.", 'Add issuer = "https://login.example.org/".'),
            "The address of the OpenID Connect provider, exactly as its tokens name it.",
            Hashed.APART,
        ),
        PolicyKey(
            "audience",
            Text(500, bool, "Tokens must be meant for this server.", 'Write for example audience = "sfumato".'),
            Required("A token for another service must open nothing here.", 'Add audience = "sfumato".'),
            "The audience that tokens must name.",
            Hashed.APART,
        ),
        PolicyKey(
            "analyst",
            Text(
                500,
                _CLAIM.fullmatch,
                "It is the path of a claim, which begins with claims.",
                'Write for example analyst = "claims.email".',
            ),
            Default("claims.email"),
            "The claim that holds the name of an analyst or owner of the policy.",
            Hashed.APART,
        ),
        PolicyKey(
            "client_id",
            Text(500),
            Default(words="`identity.audience`"),
            "The name of the console at the provider, as a public client with PKCE.",
            Hashed.APART,
        ),
        PolicyKey(
            "roles",
            Text(
                500,
                _CLAIM.fullmatch,
                "It is the path of a claim, which begins with claims.",
                'Write for example roles = "claims.groups".',
            ),
            Default(words="none: `analysts.ANALYST.roles` alone counts"),
            "The claim that lists the roles of an analyst.",
            Hashed.APART,
        ),
    ),
    into=Identity,
)
