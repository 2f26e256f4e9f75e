#include "actors/cache/cache_namespaces.h"

#include <algorithm>

#include "base/check.h"

namespace reprise::actors {

CacheNamespace* CacheNamespaces::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second.get();
}

CacheNamespace& CacheNamespaces::find_or_add(std::string_view name) {
  if (CacheNamespace* known = find(name)) return *known;
  auto space = std::make_unique<CacheNamespace>();
  space->name = name;
  space->root = tree_.add_root();
  CacheNamespace& added = *space;
  by_root_.emplace(added.root, &added);
  by_name_.emplace(added.name, std::move(space));
  return added;
}

std::vector<std::string> CacheNamespaces::names_from(std::string_view prefix) const {
  std::vector<std::string> names;
  for (const auto& [name, space] : by_name_) {
    if (name.starts_with(prefix)) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

CacheNamespace& CacheNamespaces::of(const PrefixTree::Node* root) const {
  const auto at = by_root_.find(root);
  REPRISE_CHECK(at != by_root_.end(), "the tree has a root that belongs to no namespace");
  return *at->second;
}

void CacheNamespaces::update(CacheNamespace& space) {
  if (space.idle_since != 0) idle_.erase(space.idle_since);
  space.idle_since = 0;
  const PrefixTree::Node& root = *space.root;
  if (root.count(PrefixTree::kEntry) == 0 && root.count(PrefixTree::kFlight) == 0) {
    if (root.leaf()) {
      drop(space);
    } else {
      space.idle_since = root.last_walk();
      REPRISE_CHECK(idle_.emplace(space.idle_since, &space).second,
                    "two namespaces have the same last-use stamp");
    }
  }
  while (size() > limit_ && !idle_.empty()) {
    CacheNamespace& oldest = *idle_.begin()->second;
    idle_.erase(idle_.begin());
    drop(oldest);
  }
}

void CacheNamespaces::drop(CacheNamespace& space) {
  by_root_.erase(space.root);
  tree_.drop_root(space.root);
  by_name_.erase(by_name_.find(space.name));
}

}  // namespace reprise::actors
