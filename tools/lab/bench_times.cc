#include "tools/lab/bench_times.h"

#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

namespace reprise::tools {

SnapshotTimes measure_snapshots(gpu::StateStore& store, const gpu::Sequence& source, unsigned repeat) {
  const gpu::StateSizes sizes = store.sizes();
  const std::size_t tail = source.stored() % gpu::kPageTokens == 0 ? 0 : sizes.page_bytes;
  SnapshotTimes times;
  times.bytes = sizes.slot_bytes + tail;
  std::vector<std::byte> from(times.bytes, std::byte{1});
  std::vector<std::byte> to(times.bytes);
  for (unsigned i = 0; i < repeat + 1; ++i) {  // the first run only faults memory in
    std::optional<gpu::Snapshot> snapshot;
    std::optional<gpu::Sequence> restored;
    const double capture = seconds([&] { snapshot = store.capture(source); });
    if (!snapshot) throw std::runtime_error("the state does not fit the memory");
    const double restore = seconds([&] { restored = store.restore(*snapshot).sequence; });
    const double copy = seconds([&] {
      std::memcpy(to.data(), from.data(), times.bytes);
      asm volatile("" : : "r"(to.data()) : "memory");  // keeps the copy from being optimized away
    });
    if (i == 0) continue;
    times.capture.all.push_back(capture);
    times.restore.all.push_back(restore);
    times.copy.all.push_back(copy);
  }
  return times;
}

}  // namespace reprise::tools
