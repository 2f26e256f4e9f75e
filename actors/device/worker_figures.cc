#include "actors/device/worker_figures.h"

#include "actors/device/device_state.h"
#include "runtime/names.h"
#include "traces/trace.h"

namespace reprise::actors {

WorkerPlots::WorkerPlots(const std::string& worker) {
  const auto name = [&](const char* what) { return runtime::intern_name(worker + ": " + what, what); };
  names_ = {.used_mb = name("state, MB"),
            .limit_mb = name("limit of state, MB"),
            .pages = name("pages in use"),
            .slots = name("slots in use"),
            .sequences = name("sequences"),
            .snapshots = name("snapshots"),
            .waiting = name("waiting to be admitted"),
            .prefill_rate = name("prefill, tokens/s"),
            .decode_rate = name("decode, tokens/s"),
            .decode_rows = name("sequences decoded in a step")};
}

void WorkerPlots::show_memory(const DeviceState& state, std::size_t waiting) {
  shows_ = shows_ && traces::on();
  if (!traces::on()) return;
  constexpr double kMb = 1 << 20;
  std::size_t pages = 0;
  std::size_t slots = 0;
  for (StateTable* table : state.tables()) {
    pages += table->store().pages().used();
    slots += table->store().slots().used();
  }
  plot(0, names_.used_mb, static_cast<double>(state.budget().used()) / kMb);
  plot(1, names_.limit_mb, static_cast<double>(state.budget().limit()) / kMb);
  plot(2, names_.pages, static_cast<double>(pages));
  plot(3, names_.slots, static_cast<double>(slots));
  plot(4, names_.sequences, state.sequences());
  plot(5, names_.snapshots, state.snapshots());
  plot(6, names_.waiting, static_cast<double>(waiting));
  shows_ = true;
}

void WorkerPlots::plot(std::size_t which, const char* name, double value) {
  if (shows_ && shown_[which] == value) return;
  shown_[which] = value;
  traces::plot(name, value);
}

void WorkerPlots::step_begins() {
  step_began_ns_ = traces::on() ? traces::now_ns() : 0;
}

void WorkerPlots::step_ended(std::size_t prefilled, std::size_t decoded) {
  if (step_began_ns_ == 0 || !traces::on()) return;
  const double seconds = static_cast<double>(traces::now_ns() - step_began_ns_) / 1e9;
  if (seconds <= 0) return;
  if (prefilled > 0) traces::plot(names_.prefill_rate, static_cast<double>(prefilled) / seconds);
  if (decoded > 0) traces::plot(names_.decode_rate, static_cast<double>(decoded) / seconds);
  traces::plot(names_.decode_rows, static_cast<double>(decoded));
}

}  // namespace reprise::actors
