"""
Every setting of the worker: one class, one prefix (`CHIO_`), each with a default, a unit in its name and one sentence.

Values come from the environment, into which `bootstrap.load_settings` puts `.env` first; hooks that load themselves
read the same. `docs/configuration.md` and `.env.example` are written from this class by `settings_reference`.
"""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

import pydantic
import pydantic_settings
from pydantic import Field, SecretStr

from reliability import retry
from reliability.errors import ConfigurationError

#: What every setting's name begins with.
PREFIX: Final = "CHIO_"
#: Secrets that may come from a file instead: the setting named here with `_file` added.
SECRETS: Final = ("redis_url", "broker_url", "flower_basic_auth")

Port = Annotated[int, Field(ge=0, le=65_535)]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]


class Settings(pydantic_settings.BaseSettings):
    """Hold every setting. Frozen: a changed setting is a new process."""

    model_config = pydantic_settings.SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    # --- servers -----------------------------------------------------------------------------------------------------
    redis_url: SecretStr | None = Field(
        None,
        description="URL of the ledger's server (`redis`, `rediss` or `sentinel`); unset means the embedded one.",
    )
    redis_url_file: Path | None = Field(None, description="File to read CHIO_REDIS_URL from (a mounted secret).")
    broker_url: SecretStr | None = Field(
        None,
        description="URL of the broker (`redis`, `rediss`, `sentinel`, `amqp` or `amqps`); unset: CHIO_REDIS_URL.",
    )
    broker_url_file: Path | None = Field(None, description="File to read CHIO_BROKER_URL from (a mounted secret).")
    sentinel_master: str = Field("mymaster", description="Name of the master that sentinels are asked for.")
    tls_ca_file: Path | None = Field(
        None,
        description="PEM file of the authorities that vouch for `rediss` and `amqps` servers; unset: the system's.",
    )
    data_dir: Path = Field(
        Path(".chio"), description="Directory of the embedded server's data, beat's schedule and health files."
    )
    embedded_port: Port = Field(0, description="Loopback port of the embedded server; 0 picks a free one and keeps it.")
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]+:$")] = Field(
        "chio:", description="What every key of the ledger begins with; ends with a colon."
    )
    broker_key_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]+:$")] = Field(
        "chio:broker:", description="What every key of a Redis broker begins with; ends with a colon."
    )
    application_id: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        "chio-worker", description="Name of this application; two applications must not share a namespace."
    )
    redis_timeout_s: Annotated[float, Field(gt=0, le=60)] = Field(
        5.0, description="Longest wait for one answer of the ledger's server, in seconds."
    )
    broker_timeout_s: Annotated[float, Field(ge=2, le=60)] = Field(
        10.0, description="Longest wait for one answer of the broker, in seconds."
    )
    redis_transport: Literal["lean", "stock"] = Field(
        "lean",
        description="How messages are taken from a Redis broker: `lean` takes and tracks many at once, `stock` is "
        "kombu's own way, for servers that refuse `CLIENT TRACKING`.",
    )
    connect_timeout_s: Annotated[float, Field(gt=0, le=60)] = Field(
        5.0, description="Longest wait for a connection to either server, in seconds."
    )
    allow_no_append_only: bool = Field(
        False, description="Start although the ledger's server writes no append-only file: a restart of it loses jobs."
    )
    max_clock_skew_ms: Positive = Field(
        5_000,
        description="Largest difference to the server's clock with which the worker starts.",
    )
    admit_waitaof_ms: Natural = Field(
        0, description="Wait this long for an admitted job to be on disk before saying yes (WAITAOF); 0 does not wait."
    )

    # --- worker ------------------------------------------------------------------------------------------------------
    pool: Literal["prefork", "threads"] = Field(
        "prefork", description="Kind of pool; only prefork can end a hook that hangs."
    )
    concurrency: Annotated[int, Field(ge=1, le=1_024)] = Field(2, description="Attempts one worker runs at a time.")
    batch_size: Annotated[int, Field(ge=1, le=1_000)] = Field(
        100, description="How many jobs one message wakes at most; 1 sends one message a job."
    )
    gather_size: Annotated[int, Field(ge=1, le=1_000)] = Field(
        32,
        description="How many messages that came together run as one batch, each woken and acknowledged on its own; "
        "1 runs each alone, and so does a worker whose events are watched.",
    )
    batch_concurrency: Annotated[int, Field(ge=1, le=256)] = Field(
        32, description="How many hooks of its batches one process runs at a time."
    )
    max_tasks_per_child: Positive = Field(10_000, description="A prefork process is replaced after this many tasks.")
    max_memory_per_child_kib: Positive = Field(
        400_000, description="A prefork process larger than this is replaced after its task, in KiB."
    )
    lease_ms: Annotated[int, Field(ge=1_000, le=86_400_000)] = Field(
        15_000, description="How long a claim is valid; it is renewed every third of this while the hook runs."
    )
    soft_time_limit_s: Positive = Field(30, description="A hook that runs longer is interrupted, in seconds.")
    hard_time_limit_s: Positive = Field(45, description="A hook that goes on all the same is killed then, in seconds.")
    soft_shutdown_timeout_s: Natural = Field(
        25, description="On SIGTERM, running attempts may go on for so long; the rest returns to the queue."
    )
    max_hop_s: Positive = Field(
        60, description="Delays up to this are countdowns of the broker; longer ones are parked in the ledger."
    )
    visibility_timeout_s: Positive = Field(
        180, description="A message that a Redis broker handed out and nobody finished is handed out again after this."
    )
    restore_interval_s: Positive = Field(
        10, description="How often a worker looks for such messages on a Redis broker, in seconds."
    )
    pump_period_ms: Annotated[int, Field(ge=50, le=10_000)] = Field(
        500, description="How often each worker looks for jobs that are due and have no message."
    )
    pump_batch: Annotated[int, Field(ge=1, le=10_000)] = Field(500, description="How many jobs it wakes at a time.")
    mark_period_ms: Annotated[int, Field(ge=100, le=60_000)] = Field(
        1_000, description="How often a watermark is sent through each queue."
    )
    lost_message_slack_ms: Annotated[int, Field(ge=100)] = Field(
        2_000,
        description="How far the watermark must have passed a message that counts as lost; doubles per wake-up, up to "
        "32 times.",
    )
    health_stale_after_s: Positive = Field(
        15, description="A worker whose health file or main loop is older than this counts as not live."
    )

    # --- jobs --------------------------------------------------------------------------------------------------------
    dedup_window_s: Positive = Field(
        172_800, description="How long a finished job's id is remembered, in seconds; a job in the ledger always is."
    )
    max_payload_bytes: Annotated[int, Field(ge=1_024, le=16_777_216)] = Field(
        65_536, description="Largest payload of a job; larger ones are refused before they reach a server."
    )
    max_message_bytes: Annotated[int, Field(ge=4_096, le=67_108_864)] = Field(
        1_048_576, description="Largest message a worker reads; larger ones are quarantined."
    )
    retry_jitter_ms: Natural = Field(0, description="Up to this is added to every backoff, at random.")
    dead_letter_feed_max_length: Positive = Field(
        100_000, description="How many messages the dead-letter queue may hold; what is beyond stays owed in the store."
    )
    dead_letter_republish_s: Positive = Field(
        30, description="A dead letter whose publication failed is published again after this, in seconds."
    )
    spool_max_entries: Positive = Field(
        10_000,
        description="How many outcomes may wait on disk while the ledger is away; more are lost with their leases.",
    )
    quarantine_max_entries: Positive = Field(
        10_000, description="How many messages nobody can read are kept; the oldest is dropped and counted."
    )
    quarantine_max_bytes: Positive = Field(
        67_108_864, description="How many bytes of such messages are kept; the oldest is dropped and counted."
    )

    # --- settlement --------------------------------------------------------------------------------------------------
    settlement_hook: str = Field(
        "tasks.hooks.http_settlement:from_environment", description="The settlement hook, as package.module:attribute."
    )
    settlement_max_retries: Natural = Field(5, description="Retries after the first attempt of a settlement.")
    settlement_initial_backoff_ms: Natural = Field(250, description="Wait before the first retry.")
    settlement_backoff_multiplier: Natural = Field(2, description="Growth of the wait from one retry to the next.")
    settlement_backoff_cap_ms: Natural = Field(60_000, description="Longest wait between two attempts.")

    # --- delivery and reconciliation ---------------------------------------------------------------------------------
    delivery_hook: str = Field(
        "tasks.hooks.webhook:from_environment", description="The delivery hook, as package.module:attribute."
    )
    partners_file: Path | None = Field(
        None, description="TOML file with the partners and their terms; unset: no deliveries."
    )
    reconciliation_capacity: Positive = Field(
        100_000, description="How many entries may wait for a receipt; past it nothing new is queued."
    )
    max_pending_age_s: Positive = Field(
        3_600, description="An entry that waited longer for its receipt is escalated, in seconds."
    )
    escalation_period_s: Positive = Field(60, description="How often beat looks for such entries, in seconds.")
    beat_scheduler: Literal["celery", "redbeat"] = Field(
        "celery", description="`redbeat` lets several beats run, of which one ticks and the others stand by."
    )

    # --- logs and Flower ---------------------------------------------------------------------------------------------
    log_format: Literal["console", "json"] = Field("console", description="Lines for people or one JSON object a line.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least severe line written.")
    send_task_events: bool = Field(
        False, description="Tell of every task from the start; otherwise once Flower asks, 5 s after its start at most."
    )
    flower_address: str = Field("127.0.0.1", description="Address Flower listens on.")
    flower_port: Port = Field(5_555, description="Port Flower listens on.")
    flower_basic_auth: SecretStr | None = Field(
        None, description="`user:password` that Flower asks for; required off the loopback interface."
    )
    flower_basic_auth_file: Path | None = Field(None, description="File to read CHIO_FLOWER_BASIC_AUTH from.")
    flower_max_tasks: Positive = Field(10_000, description="How many tasks Flower keeps in memory.")
    flower_read_only: bool = Field(True, description="Flower shows tasks and workers and changes nothing.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _read_secret_files(cls, values: dict[str, object]) -> dict[str, object]:
        """Put the content of `<secret>_file` in the secret's place."""
        given = dict(values)
        for secret in SECRETS:
            path = given.get(f"{secret}_file")
            if path is None:
                continue
            if given.get(secret) is not None:
                raise ValueError(f"set {env_name(secret)} or {env_name(secret)}_FILE, not both")
            given[secret] = _secret_from(env_name(secret), Path(str(path)))
        return given

    def settlement_policy(self) -> retry.RetryPolicy:
        """
        Return the retry policy of settlements.

        Raises:
            PolicyRangeError: if the four numbers make no policy.

        """
        return retry.RetryPolicy(
            max_retries=self.settlement_max_retries,
            initial_backoff_ms=self.settlement_initial_backoff_ms,
            backoff_multiplier=self.settlement_backoff_multiplier,
            backoff_cap_ms=self.settlement_backoff_cap_ms,
        )

    @classmethod
    def load(cls, **given: object) -> Self:
        """
        Read the settings from the environment; what is given wins.

        Raises:
            ConfigurationError: naming every setting that does not hold, without its value.

        """
        try:
            return cls(**given)  # type: ignore[arg-type]  # pydantic checks each value, as it checks the environment's
        except pydantic.ValidationError as error:
            raise ConfigurationError("\n".join(_sentence(detail) for detail in error.errors())) from None


def env_name(field: str) -> str:
    """Return the environment variable that sets the field."""
    return f"{PREFIX}{field.upper()}"


def _secret_from(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ValueError(f"{name}_FILE: cannot read {path}: {error.strerror}") from error


def _sentence(detail: object) -> str:
    """Turn one finding of pydantic into a sentence that names the setting and tells nothing of its value."""
    finding = detail if isinstance(detail, dict) else {}
    where = finding.get("loc") or ()
    problem = str(finding.get("msg", "")).removeprefix("Value error, ")
    return f"{env_name(str(where[0]))}: {problem}" if where else problem
