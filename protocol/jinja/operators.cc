#include "protocol/jinja/operators.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "protocol/jinja/access.h"
#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/text.h"

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

namespace {

// long double represents every int64 and double on x86-64 and AArch64 Linux. Elsewhere comparisons of
// integers above 2^53 with floats may be inexact.
int number_order(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  }
  const auto wide = [](const Value& v) {
    return v.is_float() ? static_cast<long double>(v.as_double()) : static_cast<long double>(v.as_int());
  };
  return wide(a) < wide(b) ? -1 : wide(a) > wide(b);
}

bool is_nan(const Value& value) {
  return value.is_float() && std::isnan(value.as_double());
}

bool have_order(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return true;
  if (a.is_string() && b.is_string()) return true;
  if (!a.is_list() || !b.is_list()) return false;
  const auto flavor = [](const Value& v) {
    return v.list().is_tuple() ? List::Flavor::kTuple : v.list().flavor;
  };
  return flavor(a) == flavor(b) && (flavor(a) == List::Flavor::kTuple || flavor(a) == List::Flavor::kList);
}

bool compare(Workspace& workspace, const Value& a, const Value& b, std::string_view sign) {
  if (a.is_number()) {
    if (is_nan(a) || is_nan(b)) return false;
    const int order = number_order(a, b);
    return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
  }
  if (a.is_string()) {  // byte order of UTF-8 is code point order
    workspace.work(std::min(a.as_string().size(), b.as_string().size()));
    const int order = a.as_string().compare(b.as_string());
    return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
  }
  const auto& x = a.items();
  const auto& y = b.items();
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!equals(workspace, x[i], y[i])) return compare_order(workspace, x[i], y[i], sign);
  }
  const int order = x.size() < y.size() ? -1 : x.size() > y.size();
  return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
}

bool same_items(Workspace& workspace, const Value& a, const Value& b) {
  const auto& x = a.items();
  const auto& y = b.items();
  if (x.size() != y.size()) return false;
  const bool x_is_tuple = a.list().is_tuple();
  const bool y_is_tuple = b.list().is_tuple();
  if (x_is_tuple != y_is_tuple) return false;
  if (!x_is_tuple && a.list().flavor != b.list().flavor) return false;
  const Workspace::Level level(workspace);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!equals(workspace, x[i], y[i])) return false;
  }
  return true;
}

bool same_members(Workspace& workspace, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  const Workspace::Level level(workspace);
  for (const Dict::Entry& entry : a.entries()) {
    const Value* other = b.find(entry.key);
    if (other == nullptr || !equals(workspace, entry.value, *other)) return false;
  }
  return true;
}

int key_rank(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
      return 0;
    case ValueKind::kBool:
    case ValueKind::kInt:
    case ValueKind::kFloat:
      return 1;
    case ValueKind::kString:
      return 2;
    case ValueKind::kList:
      return 3;
    case ValueKind::kUndefined:
      return 4;
    default:
      return 5;
  }
}

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
    case ValueKind::kUndefined:
      return false;
    case ValueKind::kBool:
      return value.as_bool();
    case ValueKind::kInt:
      return value.as_int() != 0;
    case ValueKind::kFloat:
      return value.as_double() != 0;
    case ValueKind::kString:
      return !value.as_string().empty();
    case ValueKind::kList:
      return !value.items().empty();
    case ValueKind::kDict:
      return value.dict().size() > 0;
    case ValueKind::kObject:
      return value.object().length().value_or(1) > 0;
  }
  return false;
}

bool equals(Workspace& workspace, const Value& a, const Value& b) {
  workspace.step();
  if (a.is_number() && b.is_number()) return !is_nan(a) && !is_nan(b) && number_order(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case ValueKind::kNone:
    case ValueKind::kUndefined:
      return true;
    case ValueKind::kString:
      if (a.as_string().size() == b.as_string().size()) workspace.work(a.as_string().size());
      return a.as_string() == b.as_string();
    case ValueKind::kList:
      return &a.list() == &b.list() || same_items(workspace, a, b);
    case ValueKind::kDict:
      return &a.dict() == &b.dict() || same_members(workspace, a.dict(), b.dict());
    default:
      return a.identity() == b.identity();
  }
}

bool less(Workspace& workspace, const Value& a, const Value& b) {
  return compare_order(workspace, a, b, "<");
}

bool compare_order(Workspace& workspace, const Value& a, const Value& b, std::string_view sign) {
  workspace.step();
  if (a.is_undefined()) fail(a.undefined_message());
  if (b.is_undefined()) fail(b.undefined_message());
  if (!have_order(a, b)) {
    fail({"'", sign, "' not supported between instances of '", type_name(a), "' and '", type_name(b), "'"});
  }
  const Workspace::Level level(workspace);
  return compare(workspace, a, b, sign);
}

bool contains(Workspace& workspace, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      if (item.is_undefined()) {
        fail({"'in <string>' requires string as left operand, not Undefined: ", item.undefined_message()});
      }
      fail({"'in <string>' requires string as left operand, not ", type_name(item)});
    }
    workspace.work(container.as_string().size());
    return container.as_string().find(item.as_string()) != std::string::npos;
  }
  if (container.is_dict()) {
    check_hashable(workspace, item);
    return container.dict().find(item) != nullptr;
  }
  if (!is_iterable(container)) fail({"argument of type '", type_name(container), "' is not iterable"});
  Cursor cursor(workspace, container);
  Value each;
  while (cursor.next(each)) {
    if (is_same(each, item) || equals(workspace, each, item)) return true;
  }
  return false;
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case ValueKind::kNone:
    case ValueKind::kUndefined:
      return true;
    case ValueKind::kBool:
      return a.as_bool() == b.as_bool();
    case ValueKind::kInt:
      return a.as_int() == b.as_int();
    case ValueKind::kFloat:
      return false;
    case ValueKind::kString:
      return a.identity() == b.identity() || a.as_string() == b.as_string();
    default:
      return a.identity() == b.identity();
  }
}

int key_order(const Value& a, const Value& b) {
  if (const int order = key_rank(a) - key_rank(b)) return order;
  switch (key_rank(a)) {
    case 1:
      if (is_nan(a) || is_nan(b)) return static_cast<int>(is_nan(a)) - static_cast<int>(is_nan(b));
      return number_order(a, b);
    case 2:
      return a.as_string().compare(b.as_string());
    case 3: {
      const auto& x = a.items();
      const auto& y = b.items();
      for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
        if (const int order = key_order(x[i], y[i])) return order;
      }
      return x.size() < y.size() ? -1 : x.size() > y.size();
    }
    case 5:
      return a.identity() < b.identity() ? -1 : a.identity() > b.identity();
    default:
      return 0;
  }
}

void check_hashable(Workspace& workspace, const Value& key) {
  const bool is_hashable = !key.is_dict() && (!key.is_list() || key.list().is_tuple() ||
                                              key.list().flavor == List::Flavor::kRange);
  if (!is_hashable) fail({"unhashable type: '", type_name(key), "'"});
  workspace.work(key.is_string() ? key.as_string().size() : 0);
  if (key.is_list()) {
    for (const Value& item : key.items()) check_hashable(workspace, item);
  }
}

void charge_key(Workspace& workspace, const Value& key) {
  workspace.work(key.is_string() ? key.as_string().size() : 0);
  if (key.is_list()) {
    for (const Value& item : key.items()) charge_key(workspace, item);
  }
}

namespace {

// Removes underscores between digits; nothing if one is elsewhere.
std::optional<std::string> digits_without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const std::optional<std::string> plain = digits_without_underscores(strip(text, nullptr, Side::kBoth));
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    const std::int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == 0 || base == marked)) {
      base = marked;
      digits.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (end != digits.data() + digits.size()) return std::nullopt;
  const std::uint64_t max = static_cast<std::uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (error == std::errc::result_out_of_range || value > max) fail_range();
  if (error != std::errc()) return std::nullopt;
  return static_cast<std::int64_t>(negative ? ~value + 1 : value);
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> plain = digits_without_underscores(strip(text, nullptr, Side::kBoth));
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view digits = *plain;
  bool negative = false;
  if (digits[0] == '-' || digits[0] == '+') {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  std::string word;
  for (const char c : digits.substr(0, 9))
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (digits.empty() || std::isalpha(static_cast<unsigned char>(digits[0])) != 0 || digits[0] == '-') {
      return std::nullopt;
    }
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end != digits.data() + digits.size()) return std::nullopt;
    if (error == std::errc::result_out_of_range) {
      value = std::strtod(std::string(digits).c_str(), nullptr);  // overflow gives infinity, underflow zero
    } else if (error != std::errc()) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

std::optional<std::int64_t> truncate_to_integer(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (!(value < 9223372036854775808.0 && value >= -9223372036854775808.0)) {
    fail_range();
  }
  return static_cast<std::int64_t>(value);
}

double round_to(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  // printf rounds the exact binary value with ties to even, like Python.
  char buffer[700];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), value);
  return std::strtod(buffer, nullptr);
}

}  // namespace reprise::protocol::jinja
