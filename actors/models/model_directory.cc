#include "actors/models/model_directory.h"

#include <algorithm>

namespace reprise::actors {

using protocol::Answer;
using protocol::Error;
using protocol::ErrorKind;
using Entry = ModelDirectory::Entry;

std::optional<ModelDirectory::Entry> ModelDirectory::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = protocol::find_named(
      entries_.begin(), entries_.end(), name, [](const Entry& entry) -> const auto& { return entry.card; });
  if (found == entries_.end()) return std::nullopt;
  return *found;
}

void ModelDirectory::set(Entry entry) {
  const std::lock_guard lock(mutex_);
  for (Entry& old : entries_) {
    if (old.card.id != entry.card.id) continue;
    old = std::move(entry);
    return;
  }
  entries_.push_back(std::move(entry));
}

void ModelDirectory::change(const std::string& name, const std::function<void(Entry&)>& work) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.card.id == name) work(entry);
  }
}

void ModelDirectory::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.card.id == name; });
}

namespace {

struct Named {
  std::optional<Entry> entry;
  std::string adapter;
};

/// Splits "MODEL:ADAPTER": MODEL is the whole name, or its longest part before a colon, that is a model's.
Named named(const ModelDirectory& directory, const std::string& name) {
  Named out{directory.find(name), {}};
  for (std::size_t colon = name.rfind(':'); !out.entry && colon != std::string::npos && colon > 0;
       colon = name.rfind(':', colon - 1)) {
    out = {directory.find(name.substr(0, colon)), name.substr(colon + 1)};
  }
  return out;
}

std::string those_of(const Entry& entry) {
  std::string names;
  for (const ServedAdapter& adapter : entry.adapters) names += (names.empty() ? "" : ", ") + adapter.name;
  return names.empty() ? "the model has no adapters" : "its adapters are " + names;
}

std::string there_is_no(const ModelDirectory& directory, const std::string& model) {
  std::vector<std::string> served;
  for (const Entry& entry : directory.all()) served.push_back(entry.card.id);
  return protocol::no_such_model(model, served);
}

}  // namespace

Answer<ModelChoice> choose_model(const ModelDirectory& directory, const std::string& model,
                                 const std::string& adapter) {
  Named found = named(directory, model);
  if (!found.entry) {
    return Error{ErrorKind::kUnknownModel,
                 model.empty() ? "no model is loaded" : there_is_no(directory, model), "model"};
  }
  const Entry& entry = *found.entry;
  if (!entry.model) {
    return Error{ErrorKind::kUnavailable, "model '" + entry.card.id + "' " + entry.detail, "model",
                 std::chrono::seconds(1)};
  }
  if (!adapter.empty() && !found.adapter.empty() && adapter != found.adapter) {
    return Error{ErrorKind::kInvalid,
                 "adapter: '" + adapter + "' contradicts the adapter in model '" + model + "'", "adapter"};
  }
  const std::string& wanted = adapter.empty() ? found.adapter : adapter;
  ModelChoice choice{.model = entry.model, .adapter = {}};
  if (wanted.empty()) return choice;
  const auto one = std::find_if(entry.adapters.begin(), entry.adapters.end(),
                                [&](const ServedAdapter& other) { return other.name == wanted; });
  if (one == entry.adapters.end()) {
    return Error{ErrorKind::kUnknownModel,
                 "model '" + entry.card.id + "' has no adapter '" + wanted + "'; " + those_of(entry),
                 adapter.empty() ? "model" : "adapter"};
  }
  if (!one->ready()) {
    return Error{ErrorKind::kUnavailable,
                 "adapter '" + wanted + "' of model '" + entry.card.id + "' cannot be used: " + one->error,
                 adapter.empty() ? "model" : "adapter"};
  }
  choice.adapter = *one;
  return choice;
}

}  // namespace reprise::actors
