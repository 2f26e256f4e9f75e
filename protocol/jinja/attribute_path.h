#pragma once
// The attribute argument of filters: 'function.name' or 'parts.0', looked up part by part.
//
// Threading: values of one rendering.

#include <vector>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

class AttributePath {
 public:
  /// None, or null, is the path to the value itself.
  AttributePath(Workspace& workspace, const Value* attribute);

  /// `fallback`, if not null, takes the place of what is undefined on the way.
  Value get(Workspace& workspace, Value item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

}  // namespace reprise::protocol::jinja
