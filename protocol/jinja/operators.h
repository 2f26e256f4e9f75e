#pragma once
// The operators of expressions, as Python has them: arithmetic, equality, order and truth, and numbers from
// text. 1 == 1.0 == True, [1] != (1,), 'a' < 'b'.
//
// Integers have 64 bits: a result beyond them is a failure, not another number.
// Threading: values of one rendering.

#include <cstdint>
#include <optional>
#include <string_view>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

enum class BinaryOperator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};

Value apply(Workspace& workspace, BinaryOperator op, const Value& a, const Value& b);
Value negate(const Value& value);
Value posit(const Value& value);

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

/// int(text, base); nothing where Python raises ValueError. Fails for integers past 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base);

/// float(text); nothing where Python raises ValueError.
std::optional<double> parse_float(std::string_view text);

/// int(value); nothing for infinities and NaN. Fails for integers past 64 bits.
std::optional<std::int64_t> truncate_to_integer(double value);

/// round(value, digits): to the nearest, and to the even one of two that are as near.
double round_to(double value, std::int64_t digits);

}  // namespace reprise::protocol::jinja
