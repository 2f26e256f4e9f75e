#pragma once
// The variables of one block of a template, with the block around it behind them.
//
// Threading: one rendering.

#include <memory>
#include <utility>
#include <vector>

#include "protocol/jinja/ast.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  /// Here or in a block around; null where the name is not set.
  const Value* find(NameId name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      for (const auto& [known, value] : scope->values_) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }

  void set(NameId name, Value value) {
    for (auto& [known, held] : values_) {
      if (known == name) {
        held = std::move(value);
        return;
      }
    }
    values_.emplace_back(name, std::move(value));
  }

  void clear() { values_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<NameId, Value>> values_;  // few
};

}  // namespace reprise::protocol::jinja
