#pragma once
// Access to parts of values as in Jinja's immutable sandbox: iteration, length, indices, slices, value[key]
// and value.name.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

bool is_iterable(const Value& value);

/// Iterates over the items of a list, the keys of a dict or the characters of a string. The constructor fails
/// if the value is not iterable. Keeps the value alive.
class Cursor {
 public:
  Cursor(Workspace& workspace, Value value);

  bool next(Value& out);
  /// Returns the number of items; nothing for iterators, which do not know it.
  std::optional<std::size_t> size() const;

 private:
  Workspace& workspace_;
  Value value_;
  std::size_t at_ = 0;
};

std::vector<Value> to_vector(Workspace& workspace, const Value& value);

/// Returns len(value); nothing if it has none.
std::optional<std::size_t> length_of(const Value& value);

/// Returns value[index]; nothing if it is out of range.
std::optional<Value> item_at(Workspace& workspace, const Value& value, std::int64_t index);

/// Returns value[start:stop:step]; None leaves a bound open.
Value slice(Workspace& workspace, const Value& value, const Value& start, const Value& stop,
            const Value& step);

// `value.name` looks up methods of the type before members of a dict, `value['name']` the other way round. A
// missing name gives an undefined value, which fails when it is used. So does what the sandbox forbids:
// methods that modify a list or dict, and names that begin with an underscore.
Value get_attribute(Workspace& workspace, const Value& value, std::string_view name);
Value get_item(Workspace& workspace, const Value& value, const Value& key);

/// Returns a bound method of the value's type; nothing if the type has none of that name.
std::optional<Value> find_method(Workspace& workspace, const Value& value, std::string_view name);

}  // namespace reprise::protocol::jinja
