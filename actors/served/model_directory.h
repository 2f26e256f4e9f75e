#pragma once
// ModelDirectory: what is served now, for everybody to read without asking.
//
// Threading: any thread; a short lock around a vector of pointers.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/served/model_spec.h"
#include "actors/served/served_adapter.h"
#include "actors/served/served_model.h"
#include "protocol/job.h"
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

}  // namespace reprise::actors
