# The steps that tools/test and tools/serve share. To be sourced; sets root, the top of the working tree.
# A preset is one of CMakePresets.json. Everything is reported on stderr.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { echo "== $*" >&2; }

# build PRESET TARGET [CMAKE ARGUMENT...]: configures with the arguments and compiles a target, which may be all.
build() {
  local preset=$1 target=$2
  shift 2
  say "build $preset: $target $*"
  (
    cd "$root"
    cmake --preset "$preset" "$@"
    cmake --build --preset "$preset" --parallel "$(nproc)" --target "$target"
  ) >&2
}

# run_tests PRESET [CTEST ARGUMENT...]
run_tests() {
  local preset=$1 unrandomised=()
  shift
  say "ctest $preset $*"
  # ThreadSanitizer cannot place its shadow memory under some kernels' address randomisation.
  if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then unrandomised=(setarch -R); fi
  (cd "$root" && "${unrandomised[@]}" ctest --preset "$preset" "$@")
}

# from_nothing_on_few_cores BUILD_FOLDER: whether larger units bring a build to its end sooner, and there is the memory for
# them. A folder that was configured before stays as it is.
from_nothing_on_few_cores() {
  local gib_free
  gib_free=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  [[ ! -e $1/CMakeCache.txt ]] && (($(nproc) <= 4 && gib_free >= 2 * $(nproc)))
}

nvcc_present() { command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; }

gpu_present() { [[ -e /dev/nvidia0 ]] || nvidia-smi -L >/dev/null 2>&1; }
