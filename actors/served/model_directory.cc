#include "actors/served/model_directory.h"

#include <algorithm>

namespace reprise::actors {

std::optional<ModelDirectory::Entry> ModelDirectory::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (name.empty() || entry.card.is_called(name)) return entry;
  }
  for (const Entry& entry : entries_) {  // a model's own name comes before another's pattern
    if (entry.card.answers_to(name)) return entry;
  }
  return std::nullopt;
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

}  // namespace reprise::actors
