#pragma once
// The operators of expressions, as Python has them. Integers have 64 bits here: a result beyond them is a
// failure, not another number.
//
// Threading: values of one rendering.

#include <cstdint>

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

}  // namespace reprise::protocol::jinja
