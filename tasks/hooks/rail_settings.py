"""
The settings of the HTTP rail, read from the environment and `.env` (prefix `CHIO_RAIL_`) when it is made.

What cannot be used stops the start with the variable's name and what to do; values are never shown, one is a secret.
"""

from pathlib import Path
from typing import Self

import pydantic
import pydantic_settings

from reliability.errors import ConfigurationError
from tasks.hooks import http_client, http_url, status_urls
from tasks.hooks.http_connector import TlsFiles
from tasks.hooks.http_exchange import is_header_safe

PREFIX = "CHIO_RAIL_"
#: No secret of a service is longer; a file that is, is another file.
_MAX_TOKEN_BYTES = 8_192


class RailSettings(pydantic_settings.BaseSettings):
    """Hold where the rail is and how it is spoken to."""

    model_config = pydantic_settings.SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    url: str = pydantic.Field(description="Where observations are posted (http or https URL). Must be set.")
    deadline_s: float = pydantic.Field(
        default=10.0,
        gt=0,
        le=300,
        description="Longest time of one request in seconds, from the name's resolution to the end of the answer.",
    )
    max_response_bytes: int = pydantic.Field(
        default=http_client.DEFAULT_MAX_RESPONSE_BYTES,
        ge=1_024,
        le=1_048_576,
        description="How much of an answer is read, in bytes; the rest is left and the connection closed.",
    )
    keepalive_s: float = pydantic.Field(
        default=http_client.DEFAULT_KEEPALIVE_S,
        gt=0,
        le=300,
        description="How long an idle connection is kept, in seconds; keep it below the rail's own limit.",
    )
    block_private_addresses: bool = pydantic.Field(
        default=False,
        description="Whether the rail's name must resolve to public addresses only (true or false).",
    )
    conflict_is_finished: bool = pydantic.Field(
        default=False,
        description="Whether every 409 of this rail means that the key is settled (true or false).",
    )
    status_url: str | None = pydantic.Field(
        default=None,
        description="Where the rail tells what became of a receipt (GET), with `{receipt_id}` in its place.",
    )
    token: pydantic.SecretStr | None = pydantic.Field(
        default=None, description="Bearer token sent to the rail; better kept in a file."
    )
    token_file: Path | None = pydantic.Field(
        default=None, description="File whose content is the bearer token; read when the worker starts."
    )
    allow_unencrypted_token: bool = pydantic.Field(
        default=False,
        description="Whether the token may be sent without TLS to another host (true or false).",
    )
    ca_file: Path | None = pydantic.Field(
        default=None, description="PEM file of authorities to trust beside the system's."
    )
    client_certificate_file: Path | None = pydantic.Field(
        default=None, description="PEM file of our certificate, where the rail asks for one."
    )
    client_key_file: Path | None = pydantic.Field(
        default=None, description="PEM file of the certificate's key, where it is not in the same file."
    )

    @classmethod
    def from_environment(cls) -> Self:
        """
        Read and check the settings.

        Raises:
            ConfigurationError: With the variable that is wrong and what to do.

        """
        try:
            settings = cls()
        except pydantic.ValidationError as error:
            raise ConfigurationError(_sentence(error)) from None
        http_url.checked_url(f"{PREFIX}URL", settings.url)
        if settings.status_url is not None:
            status_urls.checked_template(f"{PREFIX}STATUS_URL", settings.status_url)
        settings.bearer_token()
        return settings

    def bearer_token(self) -> str | None:
        """
        Return the token, from wherever it is kept; None if there is none.

        Raises:
            ConfigurationError: It is given twice, cannot be read, is no header value, or would travel in the clear.

        """
        if self.token is not None and self.token_file is not None:
            raise ConfigurationError(f"{PREFIX}TOKEN and {PREFIX}TOKEN_FILE are both set: keep one")
        token = _read_token(self.token_file) if self.token_file else self.token and self.token.get_secret_value()
        if token is None:
            return None
        if not token or " " in token or not is_header_safe(token):
            raise ConfigurationError(f"{PREFIX}TOKEN: expected visible ASCII on one line; write the token alone")
        self._check_travel()
        return token

    def _check_travel(self) -> None:
        for name, url in (("URL", self.url), ("STATUS_URL", self.status_url)):
            if url and http_url.travels_in_the_clear(url) and not self.allow_unencrypted_token:
                raise ConfigurationError(
                    f"{PREFIX}{name} has no TLS, so the token would be readable on the way:"
                    f" use https, or set {PREFIX}ALLOW_UNENCRYPTED_TOKEN=true"
                )

    @property
    def tls_files(self) -> TlsFiles:
        """Return the TLS files that are set."""
        return TlsFiles(
            ca_file=self.ca_file,
            client_certificate_file=self.client_certificate_file,
            client_key_file=self.client_key_file,
        )


def _read_token(path: Path) -> str:
    try:
        content = path.read_bytes()[: _MAX_TOKEN_BYTES + 1]
        token = content.decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{PREFIX}TOKEN_FILE: expected a readable ASCII file at {path}; check it") from error
    if len(content) > _MAX_TOKEN_BYTES:
        raise ConfigurationError(f"{PREFIX}TOKEN_FILE: expected at most {_MAX_TOKEN_BYTES} bytes at {path}; check it")
    return token


def _sentence(error: pydantic.ValidationError) -> str:
    finding = error.errors(include_url=False, include_context=False, include_input=False)[0]
    variable = f"{PREFIX}{str(finding['loc'][0]).upper()}"
    if finding["type"] == "missing":
        return f"{variable} is not set: set it to the URL of the rail, such as https://rail.example/settlements"
    return f"{variable}: {finding['msg'][:1].lower()}{finding['msg'][1:]}; correct it or unset it for the default"
