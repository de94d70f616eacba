# The dashboard and the engine. CPU by default; DEVICE=gpu brings TensorFlow's CUDA libraries for an NVIDIA GPU:
#     docker build -t breakeven .
#     docker build -t breakeven:gpu --build-arg DEVICE=gpu .
# Published on this machine only, with the runs kept in a volume (the GPU image: --gpus all as well):
#     docker run --rm -p 127.0.0.1:8501:8501 -v breakeven:/data breakeven
# Any command in place of the dashboard: docker run --rm breakeven devices
# Under another name than localhost the pages open only with that name allowed:
#     -e STREAMLIT_SERVER_ALLOWED_HOSTS="localhost gpubox.example.com"
FROM python:3.13-slim AS build
ARG DEVICE=cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/breakeven
ENV PATH=/opt/breakeven/bin:$PATH
WORKDIR /src
# The dependencies by themselves, so that a change of the code does not download them again
COPY requirements.txt requirements-gpu.txt requirements-postgres.txt ./
RUN case "$DEVICE" in \
        cpu) pip install -r requirements.txt -r requirements-postgres.txt ;; \
        gpu) pip install -r requirements-gpu.txt -r requirements-postgres.txt ;; \
        *) echo "DEVICE is cpu or gpu, not $DEVICE" >&2; exit 1 ;; \
    esac
COPY . .
RUN pip install --no-deps .

FROM python:3.13-slim
COPY --from=build /opt/breakeven /opt/breakeven
RUN useradd --create-home --uid 10001 breakeven && install --directory --owner=breakeven /data
# Inside a container "localhost" is the container itself; what reaches it from outside is for "docker run -p" to say.
# Containers that share the volume share the lock, too, so that only one of them measures at a time.
ENV PATH=/opt/breakeven/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    BREAKEVEN_DATA_DIR=/data \
    BREAKEVEN_LOCK_DIR=/data \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_PORT=8501 \
    STREAMLIT_SERVER_HEADLESS=true
USER 10001
# Where "--out run.json" lands
WORKDIR /data
VOLUME /data
EXPOSE 8501
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=5)"]
ENTRYPOINT ["breakeven"]
