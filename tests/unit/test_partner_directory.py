"""What is in force: who is found by an id, whose receipts are believed, and what a reload changes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reliability.errors import ConfigurationError
from tasks.partners import PartnerDirectory
from tests.support import partner_file

TLS = Path(__file__).parent.parent / "support" / "tls"
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "partners.toml"


def test_unknown_partner_is_nobody(tmp_path: Path) -> None:
    """A partner nobody configured has no terms, and its unsigned receipts are not believed."""
    directory = partner_file.directory(tmp_path)

    assert directory.get("nobody") is None
    assert directory.terms_of("nobody") is None
    assert directory.must_be_signed("nobody") is True
    assert directory.is_signed_by("nobody", {}, b"") is False


def test_rail_receipts_come_unsigned(tmp_path: Path) -> None:
    """Receipts of settlement rails come from the producer's own intake."""
    assert partner_file.directory(tmp_path).must_be_signed("settlement") is False


@pytest.mark.parametrize("signed", [True, False])
def test_partner_says_whether_its_receipts_are_signed(tmp_path: Path, *, signed: bool) -> None:
    """Receipts count unsigned only where the partner's terms say so."""
    text = f"{partner_file.MINIMAL}receipts_signed = {str(signed).lower()}"

    assert partner_file.directory(tmp_path, text).must_be_signed("acme") is signed


def test_longest_times_are_those_of_all_partners(tmp_path: Path) -> None:
    """What other settings must outlast is the longest of all partners."""
    second = partner_file.MINIMAL.replace("acme", "bolt", 1) + "deadline_s = 40\nretry = { max_retries = 9 }"

    directory = partner_file.directory(tmp_path, partner_file.MINIMAL + second)

    assert directory.longest_deadline_s == 40
    assert directory.longest_horizon == directory.partners["bolt"].retry.horizon()


def reload_with(directory: PartnerDirectory, change: Callable[[str], str], folder: Path) -> None:
    """Change the file and load it again."""
    partner_file.write(folder, change(partner_file.MINIMAL))
    directory.reload()


def test_reload_puts_the_new_partners_in_force(tmp_path: Path) -> None:
    """After a reload the file's new partners are known and the old ones are not."""
    directory = partner_file.directory(tmp_path)

    reload_with(directory, lambda text: text.replace("[partners.acme]", "[partners.bolt]"), tmp_path)

    assert set(directory.partners) == {"bolt"}


def test_reload_of_a_broken_file_keeps_the_old_partners(tmp_path: Path) -> None:
    """A file that does not hold changes nothing and says why."""
    directory = partner_file.directory(tmp_path)
    before = directory.partners

    with pytest.raises(ConfigurationError, match="url: expected https"):
        reload_with(directory, lambda text: text.replace("https", "http"), tmp_path)

    assert directory.partners is before
