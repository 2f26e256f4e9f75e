#pragma once
// Json: an owned, mutable JSON value.
//
// Objects keep the order of their members; of duplicate keys the last value counts, at the position of the
// first, as in Python. Integers stay integers: 1 and 1.0 differ. An integer that does not fit 64 bits signed
// becomes a double.
//
// parse() is for untrusted input. It rejects invalid UTF-8, trailing text, NaN and Infinity (unless
// `python`), and anything over the limits; the error says what and where. Time is linear in the text, except
// that the members of each object are sorted, O(n log n).
//
// The as_...() getters abort on a value of another kind; find() returns null if there is nothing to find.
//
// Threading: const access from any thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/json_text.h"
#include "base/outcome.h"

namespace reprise {

struct JsonLimits {
  std::size_t bytes = 64u << 20;    // of the text
  std::size_t depth = 128;          // max nesting of arrays and objects
  std::size_t values = 4'000'000;   // max total values
  std::size_t members = 1'000'000;  // max total members of all objects
};

/// Parsing options where the standard permits a choice or Python extends it.
struct JsonReading {
  bool python = false;       // accept NaN, Infinity, -Infinity and integers of any length
  bool unique_keys = false;  // reject duplicate keys
};

struct JsonError {
  std::string message;     // "invalid JSON at line 2, column 7: expected ':' after a key"
  std::size_t offset = 0;  // bytes from the start of the text
};

struct JsonFault {
  std::size_t offset = 0;  // bytes
  std::string reason;      // empty: there is no fault
};

/// Returns the first error of `text`, or the first offset at which it exceeds a limit. Time is linear in the
/// text, memory in `limits.depth`.
JsonFault diagnose_json(std::string_view text, const JsonLimits& limits, const JsonReading& reading = {});

class Json {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInt, kDouble, kString, kArray, kObject };
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;  // keys are unique

  static Outcome<Json, JsonError> parse(std::string_view text, const JsonLimits& limits = {},
                                        const JsonReading& reading = {});
  static Json array();
  static Json object();

  Json();
  ~Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;

  Json(std::nullptr_t);
  template <class T>
  requires std::is_arithmetic_v<T> Json(T value) : value_(stored(value)) {}
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  Json(Array items);
  Json(Object members);                                                    // requires unique keys
  Json(std::initializer_list<std::pair<std::string_view, Json>> members);  // {{"role", "user"}, …}

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_int() const { return kind() == Kind::kInt; }
  bool is_double() const { return kind() == Kind::kDouble; }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  /// For error messages: "null", "a boolean", "an integer", "a number", "a string", "an array", "an object".
  const char* kind_name() const;

  bool as_bool() const { return get<bool>(); }
  std::int64_t as_int() const { return get<std::int64_t>(); }
  double as_double() const;  // also converts an integer
  const std::string& as_string() const { return get<std::string>(); }
  std::string& as_string() { return get<std::string>(); }
  const Array& as_array() const { return get<Array>(); }
  Array& as_array() { return get<Array>(); }
  const Object& as_object() const { return get<Object>(); }

  /// Number of items or members; 0 for other kinds.
  std::size_t size() const;

  /// Returns the member `key`; null if there is none or this is no object. Linear in the members.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);

  /// Like find(), but also null if the member is of another kind.
  const std::string* find_string(std::string_view key) const;
  const Array* find_array(std::string_view key) const;
  const Json* find_object(std::string_view key) const;

  /// Returns the member `key`, added as null if missing. A null value becomes an object first.
  Json& operator[](std::string_view key);
  /// Appends an item. A null value becomes an array first.
  Json& push_back(Json item);
  /// Returns whether the member existed.
  bool erase(std::string_view key);

  std::string dump(const JsonStyle& style = {}) const;
  void dump_to(std::string& out, const JsonStyle& style = {}) const;

  friend bool operator==(const Json& a, const Json& b);  // objects are equal only with the same member order

 private:
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object>;

  template <class T>
  static Value stored(T value);

  template <class T>
  const T& get() const {
    const T* value = std::get_if<T>(&value_);
    REPRISE_CHECK(value != nullptr, "a Json value was read as a kind that it is not");
    return *value;
  }
  template <class T>
  T& get() {
    return const_cast<T&>(std::as_const(*this).get<T>());
  }

  Value value_;
};

struct Json::Member {
  std::string key;
  Json value;

  friend bool operator==(const Member& a, const Member& b) = default;
};

// Defined here because construction and destruction need the complete type Member.
inline Json::Json() = default;
inline Json::~Json() = default;
// Not defaulted: compiled by g++ 12, the copy constructor of this variant crashes when a copy of an alternative throws.
inline Json::Json(const Json& other) {
  std::visit(
      [this](const auto& value) {
        auto copy = value;
        value_ = std::move(copy);
      },
      other.value_);
}
inline Json::Json(Json&& other) noexcept = default;
inline Json& Json::operator=(const Json& other) {
  Json copy(other);
  return *this = std::move(copy);
}
inline Json& Json::operator=(Json&& other) noexcept = default;
inline Json::Json(std::nullptr_t) {}
inline Json::Json(const char* text) : value_(std::string(text)) {}
inline Json::Json(std::string_view text) : value_(std::string(text)) {}
inline Json::Json(std::string text) : value_(std::move(text)) {}
inline Json::Json(Array items) : value_(std::move(items)) {}
inline Json Json::array() {
  return Json(Array());
}

template <class T>
Json::Value Json::stored(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
    if (value > static_cast<T>(INT64_MAX)) return static_cast<double>(value);
    return static_cast<std::int64_t>(value);
  } else {
    return static_cast<std::int64_t>(value);
  }
}

}  // namespace reprise
