#include "protocol/jinja/operators.h"

#include <cmath>
#include <string>

#include "protocol/jinja/error.h"
#include "protocol/jinja/format.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

[[noreturn]] void fail_range() {
  fail("an integer does not fit 64 bits");
}

const char* sign_of(BinaryOperator op) {
  constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSigns[static_cast<int>(op)];
}

[[noreturn]] void fail_types(BinaryOperator op, const Value& a, const Value& b) {
  if (op == BinaryOperator::kAdd && a.is_string()) {
    fail({"can only concatenate str (not \"", type_name(b), "\") to str"});
  }
  fail({"unsupported operand type(s) for ", sign_of(op), ": '", type_name(a), "' and '", type_name(b), "'"});
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (a == INT64_MIN && b == -1) fail_range();
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_range();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_range();
  }
  return result;
}

Value on_integers(BinaryOperator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOperator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOperator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOperator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOperator::kDivide:
      if (b == 0) fail("division by zero");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
      if (b == 0) fail("integer division or modulo by zero");
      return Value(floor_divide(a, b));
    case BinaryOperator::kModulo:
      if (b == 0) fail("integer modulo by zero");
      if (b == -1) return Value(std::int64_t{0});
      result = a % b;
      if (result != 0 && (result < 0) != (b < 0)) result += b;
      break;
    case BinaryOperator::kPower:
      if (b >= 0) return Value(integer_power(a, b));
      if (a == 0) fail("0.0 cannot be raised to a negative power");
      return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  if (overflow) fail_range();
  return Value(result);
}

Value on_floats(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value(a + b);
    case BinaryOperator::kSubtract:
      return Value(a - b);
    case BinaryOperator::kMultiply:
      return Value(a * b);
    case BinaryOperator::kDivide:
      if (b == 0) fail("float division by zero");
      return Value(a / b);
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo: {
      if (b == 0) fail(op == BinaryOperator::kModulo ? "float modulo" : "float floor division by zero");
      double rest = std::fmod(a, b);
      double quotient = (a - rest) / b;
      if (rest != 0) {
        if ((b < 0) != (rest < 0)) {
          rest += b;
          quotient -= 1;
        }
      } else {
        rest = std::copysign(0.0, b);
      }
      if (op == BinaryOperator::kModulo) return Value(rest);
      if (quotient == 0) return Value(std::copysign(0.0, a / b));
      const double floored = std::floor(quotient);
      return Value(quotient - floored > 0.5 ? floored + 1 : floored);
    }
    case BinaryOperator::kPower: {
      if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
        fail("a negative number to a fractional power is complex");
      }
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("Numerical result out of range");
      return Value(result);
    }
  }
  fail("unknown operator");
}

Value concatenate(Workspace& workspace, const Value& a, const Value& b) {
  const bool safe = a.is_safe() || b.is_safe();
  workspace.check_text(a.as_string().size() + b.as_string().size());
  if (safe && a.is_safe() != b.is_safe()) {
    return workspace.text((a.is_safe() ? a.as_string() : escape_html(a.as_string())) +
                              (b.is_safe() ? b.as_string() : escape_html(b.as_string())),
                          true);
  }
  std::string out;
  out.reserve(a.as_string().size() + b.as_string().size());
  out += a.as_string();
  out += b.as_string();
  return workspace.text(std::move(out), safe);
}

bool is_repeatable(const Value& value) {
  return value.is_string() ||
         (value.is_list() && (value.list().is_tuple() || value.list().flavor == List::Flavor::kList));
}

Value repeat(Workspace& workspace, const Value& value, std::int64_t times) {
  const std::size_t size = value.is_string() ? value.as_string().size() : value.items().size();
  const std::size_t count = times > 0 ? static_cast<std::size_t>(times) : 0;
  std::size_t total = 0;
  if (__builtin_mul_overflow(size, count, &total)) total = SIZE_MAX;
  if (value.is_string()) {
    workspace.check_text(total);
    std::string out;
    out.reserve(total);
    for (std::size_t i = 0; size > 0 && i < count; ++i) out += value.as_string();
    return workspace.text(std::move(out), value.is_safe());
  }
  workspace.check_items(total);
  std::vector<Value> items;
  items.reserve(total);
  for (std::size_t i = 0; size > 0 && i < count; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return workspace.list(std::move(items),
                        value.list().is_tuple() ? List::Flavor::kTuple : List::Flavor::kList);
}

Value join_lists(Workspace& workspace, const Value& a, const Value& b) {
  const bool tuples = a.list().is_tuple() && b.list().is_tuple();
  const bool lists = a.list().flavor == List::Flavor::kList && b.list().flavor == List::Flavor::kList;
  if (!tuples && !lists) fail_types(BinaryOperator::kAdd, a, b);
  workspace.check_items(a.items().size() + b.items().size());
  std::vector<Value> items;
  items.reserve(a.items().size() + b.items().size());
  items.insert(items.end(), a.items().begin(), a.items().end());
  items.insert(items.end(), b.items().begin(), b.items().end());
  return workspace.list(std::move(items), tuples ? List::Flavor::kTuple : List::Flavor::kList);
}

}  // namespace

Value apply(Workspace& workspace, BinaryOperator op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return on_integers(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return on_floats(op, a.as_double(), b.as_double());
  if (op == BinaryOperator::kModulo && a.is_string()) return format_percent(workspace, a, b);
  if (a.is_undefined()) fail(a.undefined_message());
  if (b.is_undefined()) fail(b.undefined_message());
  if (op == BinaryOperator::kAdd && a.is_string() && b.is_string()) return concatenate(workspace, a, b);
  if (op == BinaryOperator::kAdd && a.is_list() && b.is_list()) return join_lists(workspace, a, b);
  if (op == BinaryOperator::kMultiply) {
    if (is_repeatable(a) && b.is_integral()) return repeat(workspace, a, b.as_int());
    if (a.is_integral() && is_repeatable(b)) return repeat(workspace, b, a.as_int());
  }
  fail_types(op, a, b);
}

Value negate(const Value& value) {
  if (value.is_undefined()) fail(value.undefined_message());
  if (value.is_float()) return Value(-value.as_double());
  if (!value.is_integral()) fail({"bad operand type for unary -: '", type_name(value), "'"});
  if (value.as_int() == INT64_MIN) fail_range();
  return Value(-value.as_int());
}

Value posit(const Value& value) {
  if (value.is_undefined()) fail(value.undefined_message());
  if (value.is_float()) return value;
  if (!value.is_integral()) fail({"bad operand type for unary +: '", type_name(value), "'"});
  return Value(value.as_int());
}

}  // namespace reprise::protocol::jinja
