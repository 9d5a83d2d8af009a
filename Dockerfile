# docker build --build-arg VERSION="$(git describe --always --dirty --tags)" -t podconfigd .
#
# "make image" builds and checks this image without a registry.

# The image with Go and make. It is the only base. A release names it by digest, since a tag can be
# moved to another image: --build-arg GO_IMAGE=docker.io/library/golang@sha256:...
ARG GO_IMAGE=docker.io/library/golang:1.26

# The builder runs on the machine's own platform and cross-compiles.
FROM --platform=$BUILDPLATFORM $GO_IMAGE AS build
WORKDIR /src

COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    GOOS=$TARGETOS GOARCH=$TARGETARCH make build BIN=/out/podconfigd CTL=/out/podconfigctl VERSION="$VERSION"

# Scratch has no mkdir: the default places of the socket and of --state-dir.
RUN mkdir -p /out/run/podconfigd /out/lib/podconfigd


FROM scratch
ARG VERSION=
LABEL org.opencontainers.image.title="podconfigd" \
      org.opencontainers.image.description="The kubelet's pod configuration as a daemon: which pods belong on this node" \
      org.opencontainers.image.source="https://github.com/podconfigd/podconfigd" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"

COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY LICENSE /LICENSE
COPY --from=build --chown=65532:65532 /out/run/podconfigd /run/podconfigd
COPY --from=build --chown=65532:65532 /out/lib/podconfigd /var/lib/podconfigd
COPY --from=build /out/podconfigd /podconfigd
COPY --from=build /out/podconfigctl /podconfigctl

# Without root the socket is below $XDG_RUNTIME_DIR: this makes it
# /run/podconfigd/podconfigd.sock, as with root. A manifest directory that only root
# may read, such as kubeadm's, needs the container to run as root.
ENV XDG_RUNTIME_DIR=/run
USER 65532:65532
ENTRYPOINT ["/podconfigd"]
