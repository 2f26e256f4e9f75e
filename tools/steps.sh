# What tools/test, tools/serve, tools/lint and .ci/run share. To be sourced; sets root, the top of the working tree.
# A preset is one of CMakePresets.json. Everything is reported on stderr.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { echo "== $*" >&2; }

# build PRESET TARGET... [-D CMAKE ARGUMENT]...: configures with the arguments and compiles the targets, which may be all.
build() {
  local preset=$1 targets=() definitions=()
  shift
  for argument in "$@"; do
    if [[ $argument == -D* ]]; then definitions+=("$argument"); else targets+=("$argument"); fi
  done
  say "build $preset: ${targets[*]} ${definitions[*]}"
  (
    cd "$root"
    cmake --preset "$preset" "${definitions[@]}"
    cmake --build --preset "$preset" --parallel "$(nproc)" --target "${targets[@]}"
  ) >&2
}

# release_options: what brings a release build sooner to its end. CUDA is compiled only where there is a GPU; a build from
# nothing on few cores, where there is the memory, has larger units. A folder that was configured before keeps its units.
release_options() {
  local gib_free
  gib_free=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  if gpu_present; then echo -DREPRISE_CUDA=AUTO; else echo -DREPRISE_CUDA=OFF; fi
  if [[ ! -e $root/build/CMakeCache.txt ]] && (($(nproc) <= 4 && gib_free >= 2 * $(nproc))); then
    echo -DREPRISE_LARGE_UNITS=ON
  fi
}

# run_tests PRESET [CTEST ARGUMENT...]: without the thorough ones unless REPRISE_THOROUGH is set. Ends with what was skipped,
# and for want of what.
run_tests() {
  local preset=$1 unrandomised=() failed=0 log
  shift
  [[ ${REPRISE_THOROUGH:-} ]] || set -- -LE '^thorough$' "$@"
  say "ctest $preset $*"
  # ThreadSanitizer cannot place its shadow memory under some kernels' address randomisation.
  if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then unrandomised=(setarch -R); fi
  local temporary=$root/build-$preset/Testing/Temporary
  [[ $preset != release ]] || temporary=$root/build/Testing/Temporary
  log=$temporary/LastTest.log
  (cd "$root" && "${unrandomised[@]}" ctest --preset "$preset" --parallel "$(nproc)" "$@") || failed=$?
  if ((failed)) && may_run_again "$preset" "$temporary" "$@"; then
    say "failed beside other tests, and runs once more alone: $(cut -d: -f2 "$temporary/LastTestsFailed.log" | xargs)"
    cp "$log" "$log.first"
    (cd "$root" && "${unrandomised[@]}" ctest --preset "$preset" --rerun-failed "$@") && failed=0
    ((failed)) || say "it passed alone; what it said the first time is above, and worth a look"
    cat "$log" >>"$log.first" && mv "$log.first" "$log"
  fi
  if grep -q 'skipped for want of ' "$log" 2>/dev/null; then
    say "skipped (REPRISE_REQUIRE=NAME,... makes the want of a thing a failure)"
    grep -oh 'skipped for want of .*' "$log" | sort | uniq -c >&2
  fi
  return $failed
}

# may_run_again PRESET TEMPORARY [CTEST ARGUMENT...]: whether what failed is one or two end-to-end programs, which meet clocks,
# terminals and other processes, and no crash or report of a sanitizer. Any other failure is final.
may_run_again() {
  local preset=$1 temporary=$2 failed again
  shift 2
  grep -qE 'Sanitizer: |runtime error: |check failed|SEGFAULT|SIGSEGV|SIGABRT' "$temporary/LastTest.log" && return 1
  failed=$(wc -l <"$temporary/LastTestsFailed.log")
  again=$(cd "$root" && ctest --preset "$preset" -N --rerun-failed "$@" -L '^e2e$' | awk '/^Total Tests:/ {print $3}')
  ((failed <= 2 && again == failed))
}

nvcc_present() { command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; }

gpu_present() { [[ -e /dev/nvidia0 ]] || nvidia-smi -L >/dev/null 2>&1; }

steps=()
began=$SECONDS
failed_step=

# step NAME COMMAND...: runs the command and keeps its minutes for report_steps.
step() {
  local name=$1 begin=$SECONDS
  shift
  say "step $((${#steps[@]} + 1)): $name"
  failed_step=$name
  "$@"
  failed_step=
  steps+=("$(minutes $((SECONDS - begin))) $name")
}

minutes() { printf '%3d:%02d' $(($1 / 60)) $(($1 % 60)); }

# report_steps: the minutes of each step, and which one failed. For an EXIT trap.
report_steps() {
  say "minutes of each step"
  local line
  for line in "${steps[@]}"; do echo "$line"; done
  [[ ! $failed_step ]] || echo "       $failed_step: failed"
  echo "$(minutes $((SECONDS - began))) in all"
} >&2
