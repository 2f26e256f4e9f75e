#pragma once
// The namespaces of a prefix cache, by name. Each has a root of its own in the tree.
//
// Namespaces beyond `limit` are dropped, least recently walked first; those with entries or flights stay. The
// cache drops empty ones.
//
// Threading: one owner.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "actors/cache/prefix_tree.h"

namespace reprise::actors {

struct CacheNamespace {
  std::string name;
  PrefixTree::Node* root = nullptr;
  std::uint64_t idle_since = 0;  // 0: carries entries or flights
};

class CacheNamespaces {
 public:
  CacheNamespaces(PrefixTree& tree, std::size_t limit) : tree_(tree), limit_(limit) {}

  std::size_t size() const { return by_root_.size(); }
  CacheNamespace* find(std::string_view name) const;  // null: unknown
  CacheNamespace& find_or_add(std::string_view name);
  /// Returns the names that begin with `prefix`, sorted.
  std::vector<std::string> names_from(std::string_view prefix) const;
  CacheNamespace& of(const PrefixTree::Node* root) const;

  /// Call after a walk in it, and after it gained or lost an entry or a flight. May drop it, if it is empty,
  /// and others, if there are too many.
  void update(CacheNamespace& space);

 private:
  void drop(CacheNamespace& space);

  PrefixTree& tree_;
  std::size_t limit_;
  std::unordered_map<std::string_view, std::unique_ptr<CacheNamespace>> by_name_;  // keys: names within
  std::unordered_map<const PrefixTree::Node*, CacheNamespace*> by_root_;
  std::map<std::uint64_t, CacheNamespace*> idle_;  // by last walk
};

}  // namespace reprise::actors
