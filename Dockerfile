# The server in a container. Without a GPU:
#   docker build -t reprise . && docker run --rm -p 8080:8080 reprise
# with one (NVIDIA's container toolkit):
#   docker build -t reprise-cuda --build-arg BUILD=nvidia/cuda:12.6.3-devel-ubuntu24.04 \
#     --build-arg RUN=nvidia/cuda:12.6.3-runtime-ubuntu24.04 --build-arg CUDA=ON .
#   docker run --rm --gpus all -p 8080:8080 -v /srv/models:/models:ro reprise-cuda serve --host 0.0.0.0 --model /models/qwen
ARG BUILD=debian:12
ARG RUN=debian:12-slim

FROM ${BUILD} AS build
ARG CUDA=OFF
COPY . /src
WORKDIR /src
RUN DEBIAN_FRONTEND=noninteractive tools/packages build \
 && cmake --preset release -DREPRISE_CUDA=${CUDA} -DREPRISE_TESTS=OFF \
      -DREPRISE_LARGE_UNITS=$([ "$(nproc)" -le 4 ] && echo ON || echo OFF) \
 && cmake --build build --parallel "$(nproc)" --target reprise_pages \
 && cmake --install build --prefix /opt/reprise --component program --strip \
 && ldd /opt/reprise/bin/reprise | awk '$3 ~ /^\/(usr\/)?lib\// && $1 !~ /^lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so/ {print $3}' \
    | xargs -I{} cp -L {} /opt/reprise/lib/

FROM ${RUN}
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ca-certificates libstdc++6 \
 && rm -rf /var/lib/apt/lists/* && useradd --system --create-home --home-dir /var/lib/reprise reprise
COPY --from=build /opt/reprise /opt/reprise
ENV LD_LIBRARY_PATH=/opt/reprise/lib PATH=/opt/reprise/bin:$PATH
USER reprise
WORKDIR /var/lib/reprise
EXPOSE 8080
HEALTHCHECK --start-period=5m CMD ["reprise", "chat", "--url", "http://127.0.0.1:8080", "--max-tokens", "1"]
ENTRYPOINT ["reprise"]
CMD ["serve", "--host", "0.0.0.0"]
