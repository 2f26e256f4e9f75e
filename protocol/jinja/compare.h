#pragma once
// Equality, order and truth of values, as Python has them: 1 == 1.0 == True, [1] != (1,), 'a' < 'b'.
//
// Threading: pure functions on values of one rendering.

#include <string_view>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

bool is_true(const Value& value);
bool equals(Workspace& workspace, const Value& a, const Value& b);

/// a < b; fails, as Python does, where the two have no order.
bool less(Workspace& workspace, const Value& a, const Value& b);

/// <, <=, >, >= on values that both allow it; `sign` is for the message.
bool compare_order(Workspace& workspace, const Value& a, const Value& b, std::string_view sign);

/// a in b
bool contains(Workspace& workspace, const Value& container, const Value& item);

/// The same object, or the same small value.
bool is_same(const Value& a, const Value& b);

/// A total order of hashable values in which equal ones, and only they, compare as 0.
int key_order(const Value& a, const Value& b);

/// Fails for lists and dicts, which cannot be keys. Charges what it costs to compare the key with another.
void check_hashable(Workspace& workspace, const Value& key);

/// Charges the same for any value.
void charge_key(Workspace& workspace, const Value& key);

}  // namespace reprise::protocol::jinja
