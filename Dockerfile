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
    && install -d -o fencegate -g fencegate /data /etc/fencegate
COPY --from=build /opt/fencegate /opt/fencegate
COPY policies /etc/fencegate/policies
ENV PATH=/opt/fencegate/bin:$PATH \
    PYTHONUNBUFFERED=1
USER fencegate
# Relative paths of a policy (its data_dir first of all) start here: marks live on the volume.
WORKDIR /data
VOLUME ["/data"]
# 8080: control API, metrics, http and rows stores. 9000: the s3 listener of the shipped policies.
EXPOSE 8080 9000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["fencegate", "serve"]
CMD ["/etc/fencegate/policies/container.toml"]
