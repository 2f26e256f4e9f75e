#pragma once
// Python's operators: arithmetic, equality, order and truth, and parsing of numbers. 1 == 1.0 == True, [1] !=
// (1,), 'a' < 'b'. Integers have 64 bits; overflow is an error.

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

/// Returns a < b; fails if the types have no order, as in Python.
bool less(Workspace& workspace, const Value& a, const Value& b);

/// Evaluates <, <=, > or >= for ordered types; `sign` is for the error message.
bool compare_order(Workspace& workspace, const Value& a, const Value& b, std::string_view sign);

/// Returns whether `item in container`.
bool contains(Workspace& workspace, const Value& container, const Value& item);

/// Returns whether both are the same object, or the same small value.
bool is_same(const Value& a, const Value& b);

/// A total order of hashable values; 0 exactly for equal values.
int key_order(const Value& a, const Value& b);

/// Fails for lists and dicts, which cannot be keys. Charges the work of comparing the key.
void check_hashable(Workspace& workspace, const Value& key);

/// Charges the work of comparing a value.
void charge_key(Workspace& workspace, const Value& key);

/// Returns int(text, base); nothing if Python raises ValueError. Fails on overflow of 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base);

/// Returns float(text); nothing if Python raises ValueError.
std::optional<double> parse_float(std::string_view text);

/// Returns int(value); nothing for infinity and NaN. Fails on overflow of 64 bits.
std::optional<std::int64_t> truncate_to_integer(double value);

/// Returns round(value, digits), with ties to even.
double round_to(double value, std::int64_t digits);

}  // namespace reprise::protocol::jinja
