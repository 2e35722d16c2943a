# The application in one image: worker, beat, Flower and `chio-worker`, by the command it is started with.
#
# BASE_IMAGE is any Debian 12 image. Where none can be pulled, tests/containers/make_base.sh makes one with debootstrap;
# what it needs to reach package registries is the base's own configuration and never stands here.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS build
RUN dpkg --status python3-venv >/dev/null 2>&1 || { \
        apt-get -qq update && apt-get -qq install --no-install-recommends python3-venv >/dev/null; }
WORKDIR /build
# Requirements first: they change less often than the code, and their layer is kept.
COPY requirements/runtime.txt requirements/image.txt requirements/
RUN python3 -m venv /opt/wheel && /opt/wheel/bin/pip install --quiet --no-cache-dir --require-hashes -r requirements/image.txt
RUN python3 -m venv /opt/chio && /opt/chio/bin/pip install --quiet --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY reliability reliability
COPY storage storage
COPY tasks tasks
COPY worker worker
RUN /opt/wheel/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . && \
    /opt/chio/bin/pip install --quiet --no-cache-dir --no-deps --no-index dist/*.whl && \
    /opt/chio/bin/pip uninstall --quiet --yes pip setuptools && \
    # Compiled now: at run time the file system takes no writes.
    /opt/chio/bin/python -m compileall -q /opt/chio/lib && \
    ln -s /opt/chio/lib/python3*/site-packages/worker/flowerconfig.py /opt/chio/flowerconfig.py

FROM ${BASE_IMAGE}
RUN dpkg --status python3 tini ca-certificates >/dev/null 2>&1 || { \
        apt-get -qq update && \
        apt-get -qq install --no-install-recommends python3 tini ca-certificates >/dev/null && \
        rm -rf /var/lib/apt/lists/*; } && \
    groupadd --gid 10001 chio && useradd --uid 10001 --gid chio --no-create-home --home-dir /nonexistent chio && \
    mkdir /app && install -d -o chio -g chio -m 700 /run/chio /run/chio/spool
COPY --from=build /opt/chio /opt/chio
ENV PATH=/opt/chio/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    # Health files and beat's schedule, which may be in memory, and below it `spool`, which should be a volume: what hooks
    # did while the ledger was away. Nothing else is written, so the root file system may be read-only.
    CHIO_DATA_DIR=/run/chio \
    CHIO_LOG_FORMAT=json
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
# Orphans of a killed pool process are reaped, and signals reach the main process alone.
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["celery", "-A", "worker.app", "worker", "--without-gossip", "--without-mingle"]
HEALTHCHECK --interval=30s --timeout=15s --start-period=60s --retries=3 CMD ["chio-worker", "health", "live"]
