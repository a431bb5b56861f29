"""Who may talk to whom: addresses, the shared token, and TLS.

Brokers and clients that talk over a loopback address need the token. Over any other address they need TLS as well,
or somebody who says that this network may be trusted (`allow_remote`).
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import stat
from pathlib import Path
from typing import NamedTuple

from earmark.errors import EarmarkError

TOKEN_VARIABLE = "EARMARK_TOKEN"
LEAST_TOKEN = 16
MOST_TOKEN = 4_096


class Address(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"


def address_of(text: str | Address) -> Address:
    """Read HOST:PORT, or [HOST]:PORT for IPv6; an Address is one already."""
    if isinstance(text, Address):
        return text
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise EarmarkError(f"expected an address HOST:PORT such as 127.0.0.1:7000 or [::1]:7000, got {text!r}")
    try:
        host.encode("idna")
    except UnicodeError:
        raise EarmarkError(f"expected an address HOST:PORT with a name of a host, got {text!r}") from None
    return Address(host, int(port))


def check_reach(address: Address, has_tls: bool, allow_remote: bool) -> None:
    """Raise if the connection would leave this machine unprotected."""
    if not (address.is_loopback or has_tls or allow_remote):
        raise EarmarkError(
            f"{address} is not a loopback address: give a TLS certificate, or allow remote connections explicitly "
            f"(everything but the token is then readable on the network)"
        )


def read_token(file: str | Path | None = None) -> bytes:
    """Return the shared token: from a file that only its owner can read, or from the variable EARMARK_TOKEN."""
    if file is not None:
        token, where = _file_token(Path(file)), f"the token file {str(file)!r}"
    elif TOKEN_VARIABLE in os.environ:
        token, where = os.environb[TOKEN_VARIABLE.encode()], f"the variable {TOKEN_VARIABLE}"
    else:
        raise EarmarkError(f"expected a token, from a token file or the variable {TOKEN_VARIABLE}")
    return check_token(token.strip(), where)


def check_token(token: bytes, where: str) -> bytes:
    """Return a token, or raise an error that says where it is from, if it is too short to be safe, or too long."""
    if not isinstance(token, bytes):
        raise EarmarkError(f"{where}: expected a token of bytes, got {type(token).__name__}")
    if not LEAST_TOKEN <= len(token) <= MOST_TOKEN:
        raise EarmarkError(f"{where}: expected a token of {LEAST_TOKEN} to {MOST_TOKEN:,} bytes, got {len(token):,}")
    return token


def _file_token(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise EarmarkError(f"the token file {str(path)!r} is open to other users: chmod 600 {path.name}")
            return file.read(MOST_TOKEN + 3)
    except OSError as problem:
        raise EarmarkError(f"the token file {str(path)!r} cannot be read: {problem.strerror}") from None


def listening_context(certificate: str | Path, key: str | Path | None = None) -> ssl.SSLContext:
    """TLS for an end that listens; the key may be in the file of the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        raise EarmarkError(f"the certificate {str(certificate)!r} cannot be used: {_reason(problem)}") from None
    return context


def dialling_context(authorities: str | Path) -> ssl.SSLContext:
    """TLS for an end that dials: whom it dials must have a certificate, for this host, of one of these authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as problem:
        raise EarmarkError(f"the certificates {str(authorities)!r} cannot be used: {_reason(problem)}") from None
    return context


def _reason(problem: OSError) -> str:
    return problem.strerror or getattr(problem, "reason", None) or str(problem)
