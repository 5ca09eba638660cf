# frontlog with what a worker on Kafka needs. The links of the checkout are followed by the wheel, so that is what is installed.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[kafka]" \
    && useradd --create-home frontlog && install -d -o frontlog /crawl
USER frontlog
VOLUME /crawl
ENTRYPOINT ["frontlog"]
CMD ["--help"]
