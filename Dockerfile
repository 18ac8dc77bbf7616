# A static binary as uid 65532. Run it as the workspace's owner, or with a state of its own:
#   docker run --user "$(id -u):$(id -g)" -v "$PWD:/workspace" ctxfs
#   docker run -v "$PWD:/workspace:ro" -v ctxfs-state:/state ctxfs serve --contexts-dir /state
# deploy/compose.yaml is the first one. Clients on the host find its server from the workspace.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build && mkdir -p /out/state && cp bin/ctxfs /out/

# A server runs git to read the repositories' state.
FROM alpine:3.22
RUN apk add --no-cache git && git config --system --add safe.directory '*'
COPY --from=build /out/ctxfs /usr/local/bin/ctxfs
COPY --from=build --chown=65532:65532 /out/state /state
USER 65532:65532
WORKDIR /workspace
ENV CTXFS_WORKSPACE=/workspace CTXFS_LOG_FORMAT=json CTXFS_READY_FILE=/tmp/ctxfs.ready
VOLUME /state
# The ready file has the address, wherever the state is.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD CTXFS_ADDRESS="$(cat "$CTXFS_READY_FILE")" ctxfs health
# The unix socket is in the state; clients in other containers share that volume and the uid.
STOPSIGNAL SIGTERM
ENTRYPOINT ["ctxfs"]
CMD ["serve"]
