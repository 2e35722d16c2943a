"""A RabbitMQ that listens over TLS alone, with a certificate of a test's own authority."""

import ssl
from pathlib import Path

from tests.support.authority import Certificate
from tests.support.rabbit import RabbitServer


class SecuredRabbit(RabbitServer):
    """Run one node that speaks TLS alone, under a second address too, for which its certificate does not vouch."""

    def __init__(self, data_dir: Path, certificate: Certificate) -> None:
        super().__init__(data_dir)
        self._certificate = certificate
        # Whether the host's name fits is for the tests' subjects to find out.
        self.client_tls = {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": str(certificate.authority)}

    @property
    def url(self) -> str:
        """Return the address of the broker."""
        return f"amqps://guest:guest@127.0.0.1:{self.port}//"

    @property
    def url_of_other_address(self) -> str:
        """Return the address that is not in the certificate."""
        return self.url.replace("127.0.0.1", "127.0.0.2")

    def _environ(self) -> dict[str, str]:
        environ = super()._environ()
        # These two would open a listener without TLS.
        del environ["RABBITMQ_NODE_PORT"], environ["RABBITMQ_NODE_IP_ADDRESS"]
        config = self.data_dir / "rabbitmq.conf"
        config.write_text(
            f"""\
listeners.tcp = none
listeners.ssl.1 = 127.0.0.1:{self.port}
listeners.ssl.2 = 127.0.0.2:{self.port}
ssl_options.cacertfile = {self._certificate.authority}
ssl_options.certfile = {self._certificate.chain}
ssl_options.keyfile = {self._certificate.key}
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
"""
        )
        return {**environ, "RABBITMQ_CONFIG_FILE": str(config)}
