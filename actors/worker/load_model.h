#pragma once
// A model from its files: made, validated and digested; and an adapter, which is read alone.
//
// Threading: any thread that the device lets load.

#include <atomic>
#include <functional>
#include <memory>

#include "actors/worker/load_queue.h"
#include "models/adapters/adapter.h"
#include "models/fingerprint.h"
#include "models/model.h"

namespace reprise::actors {

struct LoadedModel {
  std::unique_ptr<models::Model> model;
  models::Fingerprint fingerprint;
};
using ModelLoads = LoadQueue<LoadedModel, protocol::ArchLoaded>;

struct ReadAdapter {
  std::uint32_t generation = 0;  // of the model that it is for
  models::Adapter adapter;
};
using AdapterLoads = LoadQueue<ReadAdapter, protocol::AdapterLoaded>;

/// Throws what `make` does, LoadError, and std::runtime_error where it was to stop.
LoadedModel load_model(const std::function<std::unique_ptr<models::Model>()>& make,
                       const std::atomic<bool>& stopping);

}  // namespace reprise::actors
