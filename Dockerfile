# Two images: `router`, which cannot read anything because the trusted packages are not even in it, and `client`.
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends build-essential && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml constraints.txt README.md ./
COPY secroute secroute

FROM build AS build-router
RUN python -m venv /opt/secroute && /opt/secroute/bin/pip install --no-cache-dir --constraint constraints.txt '.[router]'
# A router never needs them; without them no mistake can make it use them.
RUN cd /opt/secroute/lib/python3.11/site-packages/secroute && \
    rm -r content exact keyring encoding client audit sim bench

FROM build AS build-client
RUN python -m venv /opt/secroute && /opt/secroute/bin/pip install --no-cache-dir --constraint constraints.txt '.[client]'

FROM python:3.11-slim AS base
RUN useradd --uid 10001 --create-home secroute && \
    mkdir -p /etc/secroute /var/lib/secroute && chown secroute:secroute /var/lib/secroute
# Compiled kernels are kept beside the user, not in the image's read-only package.
ENV PATH=/opt/secroute/bin:$PATH NUMBA_CACHE_DIR=/home/secroute/.numba PYTHONUNBUFFERED=1
USER secroute

FROM base AS client
COPY --from=build-client /opt/secroute /opt/secroute
COPY clients /app/clients
WORKDIR /app

FROM base AS router
COPY --from=build-router /opt/secroute /opt/secroute
VOLUME /var/lib/secroute
EXPOSE 7400 9464
CMD ["secroute", "router", "run", "--config", "/etc/secroute/router.toml"]
