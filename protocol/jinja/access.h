#pragma once
// Reaching into values: iteration, length, indices and slices, value[key] and value.name, as Jinja's immutable
// sandbox has them.
//
// Threading: values of one rendering.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

bool is_iterable(const Value& value);

/// One pass over a value: the items of a list, the keys of a dict, the characters of a string. Fails on
/// construction where there is nothing to go through. The value stays alive with the cursor.
class Cursor {
 public:
  Cursor(Workspace& workspace, Value value);

  bool next(Value& out);
  /// How many items the value has in all; nothing for iterators, which do not know.
  std::optional<std::size_t> size() const;

 private:
  Workspace& workspace_;
  Value value_;
  std::size_t at_ = 0;
};

std::vector<Value> to_vector(Workspace& workspace, const Value& value);

/// len(value); nothing where it has none.
std::optional<std::size_t> length_of(const Value& value);

/// value[index] of a list or string; nothing when it lies outside.
std::optional<Value> item_at(Workspace& workspace, const Value& value, std::int64_t index);

/// value[start:stop:step], where None leaves a bound open.
Value slice(Workspace& workspace, const Value& value, const Value& start, const Value& stop,
            const Value& step);

// `value.name` looks for a method of the type first and a member of a dict second; `value['name']` the other
// way round. What is not there is undefined, which fails only when it is used. So does what the sandbox
// forbids: methods that change a list or dict, and names that begin with an underscore.
Value get_attribute(Workspace& workspace, const Value& value, std::string_view name);
Value get_item(Workspace& workspace, const Value& value, const Value& key);

/// A method of the value's type, bound to it; nothing if the type has none of that name.
std::optional<Value> find_method(Workspace& workspace, const Value& value, std::string_view name);

}  // namespace reprise::protocol::jinja
