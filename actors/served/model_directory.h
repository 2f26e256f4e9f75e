#pragma once
// ModelDirectory: what is served now, for everybody to read without asking; and which of it a request means.
//
// Threading: any thread; a short lock around a vector of pointers.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/served/model_spec.h"
#include "actors/served/served_model.h"
#include "protocol/service.h"

namespace reprise::actors {

class ModelDirectory {
 public:
  struct Entry {
    protocol::ModelCard card;
    std::shared_ptr<const ServedModel> model;            // null: loading or failed
    std::string detail;                                  // why
    ModelSpec spec;                                      // what it is loaded from
    std::vector<ServedAdapter> adapters{};               // that requests may choose, and those that failed
    std::shared_ptr<const protocol::LoadMeter> meter{};  // while it is loading
  };
  std::vector<Entry> all() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  /// By name; empty: the first.
  std::optional<Entry> find(const std::string& name) const;
  void set(Entry entry);
  /// An entry that is there, in place.
  void change(const std::string& name, const std::function<void(Entry&)>& work);
  void remove(const std::string& name);

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

struct ModelChoice {
  std::shared_ptr<const ServedModel> model;
  std::optional<ServedAdapter> adapter;  // none: the model as it is

  /// What clients call it.
  std::string name() const { return adapter ? model->card.id + ":" + adapter->name : model->card.id; }
  /// Where snapshots of its states are found, those of others are not: states of different adapters never meet. A name
  /// from outside (protocol/http/key_ring.h) is empty or begins with a digit.
  std::string name_space(const std::string& of_request) const {
    return adapter ? adapter->name_space() + of_request : of_request;
  }
};

/// The model that is meant, if it is there and ready. It is named by itself or, with an adapter, as "MODEL:ADAPTER"; an
/// adapter may also be named beside it. A model whose own name has a colon is found by its whole name first. `model` may
/// be empty: the first; `adapter` too: none, or what `model` says.
protocol::Answer<ModelChoice> choose_model(const ModelDirectory& directory, const std::string& model,
                                           const std::string& adapter = {});

}  // namespace reprise::actors
