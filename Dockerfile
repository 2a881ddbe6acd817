# The dpone image: the CLI with the embedded engines and a project bundle baked in at /opt/dpone/bundle.
# Build from a checkout: docker build -t dpone --build-arg BUNDLE=examples/flights .
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY dpone ./dpone
COPY dpone_core ./dpone_core
COPY dpone_airflow ./dpone_airflow
COPY dag_factories ./dag_factories
COPY schemas ./schemas
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[sqlite,files,embedded,duckdb]"

FROM python:3.11-slim
ARG BUNDLE=examples/flights
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "dpone[sqlite,files,embedded,duckdb]" \
    && useradd --create-home --uid 10001 dpone
COPY ${BUNDLE} /opt/dpone/bundle
USER dpone
WORKDIR /opt/dpone/bundle
ENTRYPOINT ["dpone"]
