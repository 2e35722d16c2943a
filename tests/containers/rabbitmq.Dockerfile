# Debian's RabbitMQ, listening on every address, with the user that docker-compose.yml names.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get -qq update && apt-get -qq install --no-install-recommends rabbitmq-server >/dev/null && \
    rm -rf /var/lib/apt/lists/* && install -d -o 999 -g 999 /var/lib/rabbitmq /var/log/rabbitmq && \
    chown -R 999:999 /var/lib/rabbitmq /var/log/rabbitmq /etc/rabbitmq
EXPOSE 5672
ENV HOME=/var/lib/rabbitmq
# A guest may come from another container: this node lives for one test. Busy waiting would take a core for nothing.
RUN printf 'loopback_users.guest = false\nlog.console = true\nlog.file = false\n' >/etc/rabbitmq/test.conf
ENV RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1 +sbwt none"
CMD ["env", "RABBITMQ_CONFIG_FILE=/etc/rabbitmq/test.conf", "/usr/lib/rabbitmq/bin/rabbitmq-server"]
