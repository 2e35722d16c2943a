# Debian's Redis, with the stock entry point that pytest-celery expects and the user that docker-compose.yml names.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get -qq update && apt-get -qq install --no-install-recommends redis-server >/dev/null && \
    rm -rf /var/lib/apt/lists/* && install -d -o 999 -g 1000 /data
EXPOSE 6379
CMD ["redis-server", "--bind", "*", "--protected-mode", "no", "--dir", "/data", "--appendonly", "yes"]
