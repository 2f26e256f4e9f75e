#pragma once
// namespace(): the one thing that a template can change, so that a loop can tell what it found.
//
// Threading: one rendering.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

class Namespace final : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  std::string repr(Workspace& workspace) const override;
  std::optional<Value> attribute(Workspace& workspace, std::string_view name) override;
  void clear() override { members_.clear(); }

  void set(std::string_view name, Value value);

 private:
  std::vector<std::pair<std::string, Value>> members_;  // few, in the order they came
};

}  // namespace reprise::protocol::jinja
