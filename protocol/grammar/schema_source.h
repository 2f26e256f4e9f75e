#pragma once
// SchemaSource: a JSON Schema document, where its `$ref`s lead within it, and what its keywords are called. Nothing is
// ever fetched: a reference that leads out of the document is an error.
//
// Threading: one thread, for one compilation. Schemas are pointers into the document, or into what was made for it.

#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/grammar/char_dfa.h"
#include "protocol/grammar/compile_budget.h"

namespace reprise::protocol::grammar {

using Schema = const Json*;  // true, false, or an object

/// A GrammarError that begins with the keyword.
[[noreturn]] void fail_at(std::string_view keyword, const std::string& what);

class SchemaSource {
 public:
  /// `document` must outlive it.
  SchemaSource(const Json& document, CompileBudget& budget);

  Schema root() const { return &document_; }
  Schema resolve(const std::string& reference) const;
  /// A schema of our own that says something in the words of schemas.
  Schema make(Json schema) { return &made_.emplace_back(std::move(schema)); }
  /// Before 2019 whatever stands beside a $ref is ignored.
  bool ref_stands_alone() const { return ref_stands_alone_; }
  CompileBudget& budget() { return budget_; }

  /// Whether a value fits, for the constants of a schema. Throws for what is not supported.
  bool fits(Schema schema, const Json& value, std::size_t depth = 0);
  bool pattern_fits(const std::string& pattern, std::string_view text);

 private:
  void find_ids(const Json& value, std::size_t depth);
  bool fits_number(const Json& schema, const Json& value) const;
  bool fits_string(const Json& schema, const std::string& value);
  bool fits_array(const Json& schema, const Json::Array& value, std::size_t depth);
  bool fits_object(const Json& schema, const Json& value, std::size_t depth);
  bool fits_others(const Json& schema, const Json& value, std::size_t depth);

  const Json& document_;
  CompileBudget& budget_;
  std::deque<Json> made_;
  std::map<std::string, Schema> ids_;
  std::map<std::string, CharDfa> patterns_;
  bool ref_stands_alone_ = false;
};

/// As JSON Schema compares: 1 and 1.0 are equal, and the order of members does not matter.
bool same_value(const Json& a, const Json& b);

/// Names of types in a `type` keyword that fit the value.
bool has_type(const Json& types, const Json& value);

/// Of the internal keywords that negation makes; no client can write them.
inline constexpr const char* kNotEnum = "\x01not enum";
inline constexpr const char* kNotPattern = "\x01not pattern";
inline constexpr const char* kFraction =
    "\x01"
    "fraction";  // a type: numbers that are no integers

}  // namespace reprise::protocol::grammar
