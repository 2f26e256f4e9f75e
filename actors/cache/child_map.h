#pragma once
// The children of a node of a radix tree, by the first token of their edge.
//
// Most nodes have one or two; the node behind a popular system prompt has thousands. A few lie in a plain
// vector and are scanned; more go into a hash table, and stay there.
//
// Threading: one owner.

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/token.h"

namespace reprise::actors {

template <class Node>
class ChildMap {
 public:
  std::size_t size() const { return many_ ? many_->size() : few_.size(); }
  bool empty() const { return size() == 0; }

  Node* find(TokenId token) const {
    if (many_) {
      const auto at = many_->find(token);
      return at == many_->end() ? nullptr : at->second;
    }
    for (const auto& [first, node] : few_) {
      if (first == token) return node;
    }
    return nullptr;
  }

  /// Any child; there must be one.
  Node* any() const { return many_ ? many_->begin()->second : few_.front().second; }

  /// Adds the child, or takes the place of the one with this token.
  void put(TokenId token, Node* node) {
    if (many_) {
      (*many_)[token] = node;
      return;
    }
    for (auto& [first, place] : few_) {
      if (first == token) {
        place = node;
        return;
      }
    }
    few_.emplace_back(token, node);
    if (few_.size() <= kFew) return;
    many_ = std::make_unique<Many>(few_.begin(), few_.end());
    few_ = {};
  }

  void erase(TokenId token) {
    if (many_) {
      REPRISE_CHECK(many_->erase(token) == 1, "the node has no child for this token");
      return;
    }
    for (auto& child : few_) {
      if (child.first != token) continue;
      child = few_.back();
      few_.pop_back();
      return;
    }
    REPRISE_CHECK(false, "the node has no child for this token");
  }

  template <class Function>
  void for_each(Function function) const {
    if (many_) {
      for (const auto& [first, node] : *many_) function(node);
    } else {
      for (const auto& [first, node] : few_) function(node);
    }
  }

 private:
  static constexpr std::size_t kFew = 8;
  using Many = std::unordered_map<TokenId, Node*>;

  std::vector<std::pair<TokenId, Node*>> few_;
  std::unique_ptr<Many> many_;
};

}  // namespace reprise::actors
