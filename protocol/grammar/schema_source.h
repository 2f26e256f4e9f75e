#pragma once
// SchemaSource: a JSON Schema document, where its `$ref`s lead within it, and what its keywords are called. Nothing is
// ever fetched: a reference that leads out of the document is an error.
//
// Threading: one thread, for one compilation. Schemas are pointers into the document, or into what was made for it.

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"
#include "protocol/grammar/char_dfa.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

using Schema = const Json*;  // true, false, or an object

/// A GrammarError that begins with the keyword.
[[noreturn]] void fail_at(std::string_view keyword, const std::string& what);

/// The value of a keyword that must have that kind.
const Json::Array& list_at(std::string_view keyword, const Json& value);
const Json::Object& object_at(std::string_view keyword, const Json& value);

/// Of the value with all that is in it, about.
std::size_t bytes_of(const Json& value, WorkBudget& budget);

class SchemaSource {
 public:
  /// `document` must outlive it.
  SchemaSource(const Json& document, WorkBudget& budget);

  Schema root() const { return &document_; }
  Schema resolve(const std::string& reference);
  /// A schema of our own that says something in the words of schemas.
  Schema make(Json schema);
  /// For what is made.
  Json copy(const Json& value);
  /// As Json::find(), and as fast in large objects. `object` belongs to the document, or was made.
  const Json* member(const Json& object, std::string_view key);
  /// Before 2019 whatever stands beside a $ref is ignored.
  bool ref_stands_alone() const { return ref_stands_alone_; }
  WorkBudget& budget() { return budget_; }

  /// Whether a value fits, for the constants of a schema. Throws for what is not supported.
  bool fits(Schema schema, const Json& value);
  bool pattern_fits(const std::string& pattern, std::string_view text);
  /// As JSON Schema compares: 1 and 1.0 are equal, and the order of members does not matter.
  bool same_value(const Json& a, const Json& b);

 private:
  void find_ids(const Json& value);
  const Json* at_pointer(const Json& document, std::string_view pointer);
  bool fits_number(const Json& schema, const Json& value) const;
  bool fits_string(const Json& schema, const std::string& value);
  bool fits_array(const Json& schema, const Json::Array& value);
  bool fits_object(const Json& schema, const Json& value);
  bool fits_others(const Json& schema, const Json& value);

  const Json& document_;
  WorkBudget& budget_;
  std::deque<Json> made_;
  std::map<std::string, Schema> ids_;
  std::map<std::string, Schema> resolved_;
  std::map<std::string, CharDfa> patterns_;
  std::unordered_map<const Json*, std::unordered_map<std::string_view, const Json*>>
      members_;  // of large ones
  bool ref_stands_alone_ = false;
};

/// Names of types in a `type` keyword that fit the value.
bool has_type(const Json& types, const Json& value);

/// Of the internal keywords that negation makes. They are not UTF-8, so that no client can write them.
inline constexpr const char* kNotEnum = "\xFFnot enum";
inline constexpr const char* kNotPattern = "\xFFnot pattern";
inline constexpr const char* kFraction =
    "\xFF"
    "fraction";  // a type: numbers that are no integers

// The values of `format` for strings, as regular expressions.

/// A regular expression of the whole text; null: no such format is known here.
const char* pattern_of_format(std::string_view format);

/// The specification defines it, so that ignoring it would be wrong. Others are annotations to it.
bool is_defined_format(std::string_view format);

}  // namespace reprise::protocol::grammar
