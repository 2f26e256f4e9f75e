#include "actors/device/load_model.h"

#include <stdexcept>

#include "traces/trace.h"

namespace reprise::actors {

LoadedModel load_model(const MakeModel& make, const std::atomic<bool>& stopping, protocol::LoadMeter* meter) {
  static constexpr traces::ZoneSite kSite{"load model"};
  const traces::Zone zone(kSite);
  const auto report = [&](std::uint64_t before, std::uint64_t done, std::uint64_t total) {
    if (stopping.load(std::memory_order_relaxed)) throw std::runtime_error("the device is being stopped");
    if (meter == nullptr || total == 0) return;
    meter->permille.store(static_cast<std::uint32_t>(before + 500 * done / total), std::memory_order_relaxed);
  };
  std::unique_ptr<models::Model> model =
      make([&](std::uint64_t done, std::uint64_t total) { report(0, done, total); });
  model->files().validate([&](std::uint64_t done, std::uint64_t total) { report(500, done, total); });
  const models::Fingerprint fingerprint = models::fingerprint_of(*model);
  return {std::move(model), fingerprint};
}

}  // namespace reprise::actors
