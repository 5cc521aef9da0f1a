# syntax=docker/dockerfile:1
# Stage 1 builds the environment from the hash lock and the wheel from this checkout; stage 2 has neither
# compiler nor pip cache nor sources.
ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS build
WORKDIR /build
RUN python -m venv /opt/fencegate
COPY requirements/build.txt requirements/run.txt requirements/
RUN python -m pip install --no-cache-dir --no-deps --require-hashes -r requirements/build.txt \
    && /opt/fencegate/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY policies policies
COPY gateway gateway
RUN python -m pip wheel --no-cache-dir --no-deps --no-index --no-build-isolation --wheel-dir dist . \
    && /opt/fencegate/bin/pip install --no-cache-dir --no-deps --no-index dist/*.whl

FROM python:${PYTHON_VERSION}-slim
LABEL org.opencontainers.image.title="fencegate" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin fencegate \
    && install -d -o fencegate -g fencegate /data /var/lib/fencegate /etc/fencegate
COPY --from=build /opt/fencegate /opt/fencegate
COPY policies /etc/fencegate/policies
ENV PATH=/opt/fencegate/bin:$PATH \
    PYTHONUNBUFFERED=1
USER fencegate
# Relative paths of a policy (its data_dir first of all) start here: marks live on a volume, this one or,
# with production.toml, /var/lib/fencegate.
WORKDIR /data
VOLUME ["/data", "/var/lib/fencegate"]
# 8080: control API, metrics, http and rows stores. 9000: the s3 listener of the shipped policies. 8443: the
# TLS listener of production.toml. A policy that listens elsewhere brings its own --health-cmd.
EXPOSE 8080 9000 8443
# Healthy when one of the shipped listeners answers. The certificate is not verified: it is the loopback,
# and the certificate has the name that workers use.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=1)" \
    || python -c "import ssl, urllib.request as r; r.urlopen('https://127.0.0.1:8443/healthz', timeout=1, context=ssl._create_unverified_context())"
STOPSIGNAL SIGTERM
ENTRYPOINT ["fencegate", "serve"]
CMD ["/etc/fencegate/policies/container.toml"]
