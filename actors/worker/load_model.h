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

/// Makes the model, and tells how far it is.
using MakeModel = std::function<std::unique_ptr<models::Model>(const models::LoadProgress&)>;

/// `meter` shows how far it is: the first half is done when the weights are in order, the second when they are read
/// through; null: nobody looks. Throws what `make` does, LoadError, and std::runtime_error where it was to stop.
LoadedModel load_model(const MakeModel& make, const std::atomic<bool>& stopping, protocol::LoadMeter* meter);

}  // namespace reprise::actors
