"""What a partner file may say, and that everything wrong in it is told at once without showing a secret."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from reliability.errors import ConfigurationError
from tasks.partner_terms import Partner
from tasks.partners import PartnerDirectory
from tests.support import partner_file

TLS = Path(__file__).parent.parent / "support" / "tls"
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "partners.toml"


def refusal(folder: Path, text: str) -> str:
    """Load a file that must be refused and return the message."""
    with pytest.raises(ConfigurationError) as refused:
        partner_file.directory(folder, text)
    return str(refused.value)


def acme(folder: Path, terms: str) -> Partner:
    """Load the minimal partner with further terms."""
    partner = partner_file.directory(folder, partner_file.MINIMAL + terms).get("acme")
    assert partner is not None
    return partner


def test_minimal_partner_has_the_documented_defaults(tmp_path: Path) -> None:
    """A URL and a secret are enough; everything else has a default."""
    partner = acme(tmp_path, "")

    shown = partner.model_dump(exclude={"partner_id", "url", "secrets", "tls", "retry", "breaker"})
    assert shown == {
        "allow_plain_http": False,
        "allow_private_networks": (),
        "proxy": None,
        "deadline_s": 15.0,
        "max_elapsed_s": None,
        "jitter_ms": 0,
        "max_per_second": None,
        "max_returns_per_second": None,
        "max_concurrent": None,
        "allowed_headers": (),
        "status_rules": (),
        "body_rule": None,
        "accepts_pending": False,
        "receipts_signed": True,
        "honour_delivery_headers": False,
        "deduplicates": True,
        "disabled": False,
    }


def test_every_term_reaches_what_uses_it(tmp_path: Path) -> None:
    """Policy, budget, circuit and gate are made of the partner's terms."""
    partner = acme(
        tmp_path,
        """
deadline_s = 90
max_elapsed_s = 3600
jitter_ms = 250
max_per_second = 2.5
max_concurrent = 7
retry = { max_retries = 3, initial_backoff_ms = 1000 }
breaker = { failure_threshold = 2, cool_down_ms = 5000 }
""",
    )

    terms = partner.terms
    assert (terms.policy.max_retries, terms.policy.initial_backoff_ms, terms.policy.backoff_cap_ms) == (3, 1000, 60_000)
    assert terms.budget.max_elapsed == timedelta(hours=1)
    assert terms.jitter_ms == 250
    assert (terms.limits.circuit.failure_threshold, terms.limits.circuit.cool_down_ms) == (2, 5000)
    assert (terms.limits.gate.max_per_second, terms.limits.gate.max_concurrent) == (2.5, 7)


def test_lease_of_a_probe_is_longer_than_the_deadline(tmp_path: Path) -> None:
    """A probe that is still under way is not given up."""
    terms = acme(tmp_path, "deadline_s = 90").terms

    assert terms.limits.circuit.probe_lease_ms == 180_000
    assert terms.limits.gate.entry_lease_ms == 180_000


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """One look at the message names each partner and field that is wrong."""
    message = refusal(
        tmp_path,
        """
[partners.acme]
url = "http://hooks.acme.example/"
secrets = ["env:MISSING"]
deadline_s = -1
retry = { max_retries = 300 }
status_rules = { "4040" = "failure_confirmed" }
[partners.bolt]
secrets = ["env:ACME_SECRET"]
retrys = 5
""",
    )

    assert message.splitlines()[0].endswith("partners.toml: 7 problems, nothing of it is in force")
    assert [line.strip().rpartition(": ")[0].partition(": ")[0] for line in message.splitlines()[1:]] == [
        "partner 'acme', url",
        "partner 'acme', secrets.0",
        "partner 'acme', deadline_s",
        "partner 'acme', retry",
        "partner 'acme', status_rules.4040",
        "partner 'bolt', url",
        "partner 'bolt', retrys",
    ]


@pytest.mark.parametrize(
    "url, problem",
    [
        ("https://user:pass@hooks.example/", "without user and password"),
        ("http://hooks.example/", "expected https; plain http is for loopback"),
        ("ftp://hooks.example/", "begins with https:// or http://"),
        ("https:///path", "names a host"),
        ("https://hooks.example/#part", "without #fragment"),
        ("https://hooks.example/a b", "visible ASCII"),
        ("https://hooks.example:99999/", "another text"),
        ("https://10.1.2.3/", "its address is not public"),
        ("http://127.0.0.1:8080/", "its address is not public"),
        ("http://localhost:8080/", "its address is not public"),
        ("https://[::ffff:10.0.0.1]/", "its address is not public"),
        ("https://169.254.169.254/latest", "its address is not public"),
    ],
)
def test_url_that_cannot_be_meant_is_refused(tmp_path: Path, url: str, problem: str) -> None:
    """A URL is refused for credentials, for missing TLS, for a closed address, and is not repeated in the message."""
    message = refusal(tmp_path, f'[partners.acme]\nurl = "{url}"\nsecrets = ["env:ACME_SECRET"]')

    assert problem in message
    assert "pass@" not in message


@pytest.mark.parametrize(
    "url, terms",
    [
        ("http://127.0.0.1:8080/", 'allow_private_networks = ["127.0.0.0/8"]'),
        ("http://localhost:8080/", 'allow_private_networks = ["::1/128"]'),
        ("http://hooks.example/", "allow_plain_http = true"),
        ("http://10.1.2.3/", 'allow_plain_http = true\nallow_private_networks = ["10.0.0.0/8"]'),
        ("https://10.1.2.3/", 'proxy = "http://proxy.example:3128"'),
    ],
)
def test_url_is_taken_with_the_setting_that_allows_it(tmp_path: Path, url: str, terms: str) -> None:
    """Loopback needs its network, plain http its own word, and a proxy judges addresses itself."""
    text = f'[partners.acme]\n{terms}\nurl = "{url}"\nsecrets = ["env:ACME_SECRET"]'

    partner = partner_file.directory(tmp_path, text).get("acme")

    assert partner is not None
    assert partner.url == url


@pytest.mark.parametrize(
    "terms, problem",
    [
        ('allow_private_networks = ["10.0.0.1/8"]', "allow_private_networks.0: expected allowed networks"),
        ('proxy = "https://proxy.example:3128"', "proxy: expected http://host:port"),
        ('proxy = "http://user:pass@proxy.example"', "proxy: expected a URL without user and password"),
        ("deadline_s = 0", "deadline_s: input should be greater than 0"),
        ("deadline_s = 301", "deadline_s: input should be less than or equal to 300"),
        ("deadline_s = inf", "deadline_s"),
        ('deadline_s = "15"', "deadline_s: input should be a valid number, got a string"),
        ("max_elapsed_s = 1.5", "max_elapsed_s: input should be a valid integer"),
        ("jitter_ms = true", "jitter_ms: input should be a valid integer, got true or false"),
        ("retry = { max_retry = 5 }", "retry: expected no other field, got 'max_retry'"),
        ("retry = 5", "retry: expected an object, got an integer"),
        ("retry = { initial_backoff_ms = 0 }", "retry: initial_backoff_ms must be nonzero"),
        ("breaker = { cool_down_ms = 0 }", "breaker.cool_down_ms"),
        ('allowed_headers = ["X-Trace"]', "allowed_headers.0: expected lower-case letters"),
        ('allowed_headers = ["webhook-signature"]', "allowed_headers.0: the sender sets"),
        ('status_rules = { "404" = "ok" }', "status_rules.404: expected one of"),
        ("status_rules = 404", "status_rules: expected a table of statuses"),
        ('body_rule = { outcome = "indeterminate" }', "body_rule: expected error_member or required_text"),
        ('tls = { ca_file = "missing.pem" }', "tls: TLS files: expected readable PEM"),
        ('tls = { client_key_file = "key.pem" }', "tls: expected client_cert_file beside client_key_file"),
        ("secret = 5", "secret: expected no such field; check its spelling"),
        ('partner_id = "other"', "partner_id: expected no such field"),
    ],
)
def test_term_that_does_not_hold_is_refused(tmp_path: Path, terms: str, problem: str) -> None:
    """Each wrong term is named with what is expected of it."""
    assert problem in refusal(tmp_path, partner_file.MINIMAL + terms)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "expected tables [partners.<id>], at least one"),
        ("[partners]", "at least one"),
        ('[partners]\nacme = "x"', "partner 'acme': terms: expected a table, got a string"),
        (partner_file.MINIMAL + "[defaults]\na = 1", "nothing beside them"),
        ("[partners.acme", "is no TOML"),
        (partner_file.MINIMAL.replace("acme", "settlement"), "this id is kept for settlement rails"),
        (partner_file.MINIMAL.replace("[partners.acme]", '[partners."a b"]'), "partner_id"),
    ],
)
def test_file_that_is_no_partner_file_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """The file is tables of partners and nothing else."""
    assert problem in refusal(tmp_path, text)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    """A path that leads nowhere names the setting to change."""
    with pytest.raises(ConfigurationError, match="cannot be read: No such file or directory; set CHIO_PARTNERS_FILE"):
        PartnerDirectory.load(tmp_path / "none.toml", {})


def test_broken_utf8_is_refused(tmp_path: Path) -> None:
    """Bytes that are no text are told by their offset."""
    (tmp_path / "partners.toml").write_bytes(b"[partners.acme]\nurl = '\xff'")

    with pytest.raises(ConfigurationError, match="expected UTF-8, got an invalid byte at offset 23"):
        PartnerDirectory.load(tmp_path / "partners.toml", {})


def test_tls_files_are_found_beside_the_partner_file(tmp_path: Path) -> None:
    """Own authorities and a client certificate are read when the file is loaded."""
    for name in ("loopback.crt", "loopback.key"):
        shutil.copy(TLS / name, tmp_path)

    files = acme(
        tmp_path,
        """
[partners.acme.tls]
ca_file = "loopback.crt"
client_cert_file = "loopback.crt"
client_key_file = "loopback.key"
""",
    ).tls.files

    assert (files.ca_file, files.client_key_file) == (tmp_path / "loopback.crt", tmp_path / "loopback.key")


def test_example_file_holds(tmp_path: Path) -> None:
    """The file that ships as an example loads once its secrets are there."""
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "harbour").write_text(partner_file.SECRET)
    names = ("CHIO_SECRET_ACME", "CHIO_SECRET_ACME_NEXT", "CHIO_SECRET_LOOPBACK", "CHIO_SECRET_LATE")
    environ = dict.fromkeys(names, partner_file.SECRET)

    directory = PartnerDirectory.load(tmp_path / "partners.toml", environ)

    assert set(directory.partners) == {"acme", "harbour", "loopback", "late"}
