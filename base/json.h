#pragma once
// Json: a JSON value that is owned, can be built and changed, and is written back as it was read.
//
// Objects keep the order of their members; of a key that comes twice the last value counts, in the place of
// the first, as in Python. Integers stay integers: 1 and 1.0 are different values. An integer past 64 bits
// with sign becomes a double.
//
// parse() is for input from outside: it refuses invalid UTF-8, text behind the value, NaN and Infinity (unless
// told to read as Python does), and all that is over the limits, and says what is wrong and where. Its time is
// linear in the text but for the members of an object, which are sorted: no text takes
// longer than that. The as_...() getters are for values whose kind is known: asking for another kind is a bug and ends the program.
// find() answers nothing where there is nothing, so that looking into optional members needs no checks before
// it.
//
// Threading: a plain value; const access from any thread.

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
  std::size_t bytes = 64u << 20;    // of text
  std::size_t depth = 128;          // nested arrays and objects
  std::size_t values = 4'000'000;   // of all kinds
  std::size_t members = 1'000'000;  // of all objects together
};

/// How a text is read where the standard leaves room, or Python goes beyond it.
struct JsonReading {
  bool python = false;       // NaN, Infinity and -Infinity; integers of any length
  bool unique_keys = false;  // a key that comes twice in an object is an error
};

struct JsonError {
  std::string message;     // "invalid JSON at line 2, column 7: expected ':' after a key"
  std::size_t offset = 0;  // in bytes from the start of the text
};

/// What is wrong with a text that parse() refuses, and where.
struct JsonFault {
  std::size_t offset = 0;  // in bytes
  std::string reason;      // empty: there is no fault
};

/// The first fault of `text`, read so, or place where it passes a limit. Time is linear in the text, memory in
/// `limits.depth`.
JsonFault diagnose_json(std::string_view text, const JsonLimits& limits, const JsonReading& reading = {});

class Json {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInt, kDouble, kString, kArray, kObject };
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;  // keys are distinct

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
  Json(Object members);                                                    // keys must be distinct
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

  /// For messages: "null", "a boolean", "an integer", "a number", "a string", "an array", "an object".
  const char* kind_name() const;

  bool as_bool() const { return get<bool>(); }
  std::int64_t as_int() const { return get<std::int64_t>(); }
  double as_double() const;  // takes an integer too
  const std::string& as_string() const { return get<std::string>(); }
  std::string& as_string() { return get<std::string>(); }
  const Array& as_array() const { return get<Array>(); }
  Array& as_array() { return get<Array>(); }
  const Object& as_object() const { return get<Object>(); }

  /// Items of an array, members of an object, 0 for anything else.
  std::size_t size() const;

  /// The member of that name; null when there is none or this is no object. Takes time linear in the members.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);

  /// As find(), and null as well when the member has another kind.
  const std::string* find_string(std::string_view key) const;
  const Array* find_array(std::string_view key) const;
  const Json* find_object(std::string_view key) const;

  /// The member of that name, added as null when it is not there. A null becomes an object first.
  Json& operator[](std::string_view key);
  /// Adds an item. A null becomes an array first.
  Json& push_back(Json item);
  /// Whether there was such a member.
  bool erase(std::string_view key);

  std::string dump(const JsonStyle& style = {}) const;
  void dump_to(std::string& out, const JsonStyle& style = {}) const;

  friend bool operator==(const Json& a, const Json& b);  // of objects: in the same order, too

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

// What builds or destroys a value stands here, where a Member is complete.
inline Json::Json() = default;
inline Json::~Json() = default;
inline Json::Json(const Json& other) = default;
inline Json::Json(Json&& other) noexcept = default;
inline Json& Json::operator=(const Json& other) = default;
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
