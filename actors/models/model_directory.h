#pragma once
// ModelDirectory: the models being served, readable without asking an actor, and the choice of one for a
// request.
//
// Threading: any thread; a short lock around a vector of pointers.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/models/model_spec.h"
#include "actors/models/served_model.h"
#include "protocol/service.h"

namespace reprise::actors {

class ModelDirectory {
 public:
  struct Entry {
    protocol::ModelCard card;
    std::shared_ptr<const ServedModel> model;            // null: loading or failed
    std::string detail;                                  // the reason for the state
    ModelSpec spec;                                      // its settings
    std::vector<ServedAdapter> adapters{};               // loaded ones and those that failed
    std::shared_ptr<const protocol::LoadMeter> meter{};  // while loading
  };
  std::vector<Entry> all() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  /// Returns the model of that name; empty: the first.
  std::optional<Entry> find(const std::string& name) const;
  void set(Entry entry);
  /// Changes an existing entry in place.
  void change(const std::string& name, const std::function<void(Entry&)>& work);
  void remove(const std::string& name);

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

struct ModelChoice {
  std::shared_ptr<const ServedModel> model;
  std::optional<ServedAdapter> adapter;  // empty: none

  /// Returns the name under which clients know the choice.
  std::string name() const { return adapter ? model->card.id + ":" + adapter->name : model->card.id; }
  /// Returns the cache namespace of its states: states of different adapters are never shared. `of_request`
  /// (protocol/http/key_ring.h) is empty or begins with a digit, so it cannot collide with an adapter's
  /// prefix.
  std::string name_space(const std::string& of_request) const {
    return adapter ? adapter->name_space() + of_request : of_request;
  }
};

/// Returns the requested model if it is ready, or an error. `model` is a model's name or "MODEL:ADAPTER"; a
/// model whose own name has a colon is found by its full name first; empty: the first model. `adapter` may
/// name the adapter separately; empty: none, or the one in `model`.
protocol::Answer<ModelChoice> choose_model(const ModelDirectory& directory, const std::string& model,
                                           const std::string& adapter = {});

}  // namespace reprise::actors
