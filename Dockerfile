# queenright alone, in an image from nothing: one static binary, certificates of authorities, no shell.
#
#   docker build -t queenright .
#   docker run queenright demo
#   docker run --network NETWORK queenright start -h redis
#
# Needs nothing of BuildKit: the classic builder takes it as well. docs/containers.md has the rest.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
# `release` for use; `quick` builds faster, for the tests.
ARG PROFILE=release
# The C library is built in, so that the binary runs in any image, whatever library that has.
ENV RUSTFLAGS="-C target-feature=+crt-static" CARGO_INCREMENTAL=0

# The dependencies alone, on empty sources, among them what Cargo.toml names: built again only when Cargo.toml or Cargo.lock change.
COPY Cargo.toml Cargo.lock ./
RUN mkdir -p src benches examples tests/all \
    && touch src/lib.rs tests/all/main.rs \
    && for name in $(sed -n '/^\[\[\(example\|bench\)\]\]$/{n;s/^name = "\(.*\)"$/\1/p}' Cargo.toml); do \
        touch "examples/$name.rs" "benches/$name.rs"; done \
    && echo 'fn main() {}' > src/main.rs \
    && cargo build --locked --profile "$PROFILE" --bin queenright --target "$(rustc --print host-tuple)"

# For `--version` and the label: docker build --build-arg QUEENRIGHT_COMMIT="$(git rev-parse --short=12 HEAD)"
ARG QUEENRIGHT_COMMIT=
# Newer than what was built above, whatever time their files have.
COPY src src
RUN touch src/lib.rs src/main.rs \
    && cargo build --locked --profile "$PROFILE" --bin queenright --target "$(rustc --print host-tuple)"

# The image as a folder. /tmp is for `demo` and `verify`.
RUN mkdir -p /image/etc/ssl/certs \
    && mkdir -m 1777 /image/tmp \
    && cp target/*/*/queenright /image/queenright \
    && strip /image/queenright \
    && cp -L /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && echo 'queenright:x:65532:65532::/:/queenright' > /image/etc/passwd \
    && echo 'queenright:x:65532:' > /image/etc/group

FROM scratch
ARG QUEENRIGHT_COMMIT=
COPY --from=build /image/ /
COPY LICENSE-MIT LICENSE-APACHE /
LABEL org.opencontainers.image.title="queenright" \
      org.opencontainers.image.description="A job queue with a built-in leader election, on one Redis" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="$QUEENRIGHT_COMMIT"
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
# A graceful shutdown within --grace, 8 s by default; Docker waits for 10.
STOPSIGNAL SIGTERM
# Asks the process itself: no port, no curl.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/queenright", "healthcheck"]
ENTRYPOINT ["/queenright"]
CMD ["start"]
