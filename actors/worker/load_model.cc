#include "actors/worker/load_model.h"

#include <stdexcept>

#include "traces/trace.h"

namespace reprise::actors {

LoadedModel load_model(const std::function<std::unique_ptr<models::Model>()>& make,
                       const std::atomic<bool>& stopping) {
  static constexpr traces::ZoneSite kSite{"load model"};
  const traces::Zone zone(kSite);
  std::unique_ptr<models::Model> model = make();
  model->checkpoint().validate([&](std::uint64_t, std::uint64_t) {
    if (stopping.load(std::memory_order_relaxed)) throw std::runtime_error("the device is being stopped");
  });
  const models::Fingerprint fingerprint = models::fingerprint_of(*model);
  return {std::move(model), fingerprint};
}

}  // namespace reprise::actors
