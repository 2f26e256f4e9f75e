#pragma once
// The arguments of a call, and how a builtin function reads them.
//
// Threading: values of one rendering.

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// The arguments of a function by its parameters. Fails on construction for too many, unknown and doubled
/// ones; what was not given reads as null.
class Parameters {
 public:
  Parameters(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> names);

  const Value* find(std::size_t i) const { return values_[i]; }
  const Value& need(std::size_t i) const;  // fails when it was not given

  // With a value for when it was not given. Fail for another type.
  std::int64_t integer(std::size_t i, std::int64_t fallback) const;
  bool truth(std::size_t i, bool fallback) const;
  /// None counts as not given.
  std::string_view text(std::size_t i, std::string_view fallback) const;
  const std::string& need_text(std::size_t i) const;

 private:
  std::string function_;
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

}  // namespace reprise::protocol::jinja
