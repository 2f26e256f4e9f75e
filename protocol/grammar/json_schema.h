#pragma once
// Compiles JSON Schema to a program that accepts the JSON texts of valid values.
//
// Every keyword that restricts values is enforced, or the schema is rejected with a GrammarError that begins
// with the keyword. Annotations, including `format`s that the specification does not define, have no effect.
//
// SchemaSource resolves references, SchemaParts splits sets of schemas into alternatives, json_schema_value()
// creates nodes.
//
// Threading: used by one thread, for one compilation.

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "protocol/grammar/char_dfa.h"
#include "protocol/grammar/program.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {

using Schema = const Json*;  // true, false, or an object

/// Throws a GrammarError that begins with the keyword.
[[noreturn]] void fail_at(std::string_view keyword, const std::string& what);

/// Return the value as a list or object; throw if it is of another type.
const Json::Array& list_at(std::string_view keyword, const Json& value);
const Json::Object& object_at(std::string_view keyword, const Json& value);

/// Returns the approximate memory of a value and everything in it.
std::size_t bytes_of(const Json& value, WorkBudget& budget);

/// A JSON Schema document with its `$ref`s and keywords. References outside the document are an error;
/// nothing is fetched. A Schema points into the document or to a schema that make() created.
class SchemaSource {
 public:
  /// `document` must outlive it.
  SchemaSource(const Json& document, WorkBudget& budget);

  Schema root() const { return &document_; }
  Schema resolve(const std::string& reference);
  /// Stores a derived schema and returns a pointer to it.
  Schema make(Json schema);
  /// Copies a value for use in a derived schema, and charges the budget.
  Json copy(const Json& value);
  /// Like Json::find(), but fast for large objects. Requires: `object` is in the document or was made by
  /// make().
  const Json* member(const Json& object, std::string_view key);
  /// Returns whether `$ref` overrides its siblings, as in drafts before 2019.
  bool ref_stands_alone() const { return ref_stands_alone_; }
  WorkBudget& budget() { return budget_; }

  /// Returns whether a value is valid; used for a schema's constants. Throws for unsupported keywords.
  bool fits(Schema schema, const Json& value);
  bool pattern_fits(const std::string& pattern, std::string_view text);
  /// Compares as JSON Schema does: 1 equals 1.0, and member order does not matter.
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
  // members of large objects by name
  std::unordered_map<const Json*, std::unordered_map<std::string_view, const Json*>> members_;
  bool ref_stands_alone_ = false;
};

bool has_type(const Json& types, const Json& value);

/// Internal keywords produced by negation. They are not valid UTF-8, so no client can send them.
inline constexpr const char* kNotEnum = "\xFFnot enum";
inline constexpr const char* kNotPattern = "\xFFnot pattern";
inline constexpr const char* kFraction =
    "\xFF"
    "fraction";  // a type: numbers that are not integers

// String formats as regular expressions.

/// Returns a regular expression of the whole text; null: unknown format.
const char* pattern_of_format(std::string_view format);

/// Returns whether the specification defines the format, so that it must be enforced. Other formats are
/// annotations.
bool is_defined_format(std::string_view format);

/// Schemas that a value must all satisfy, sorted without duplicates; empty: any value.
using SchemaSet = std::vector<Schema>;

enum ValueType : std::uint32_t {
  kNullType = 1,
  kBoolType = 2,
  kIntegerType = 4,
  kFractionType = 8,  // numbers that are not integers; with kIntegerType: all numbers
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAnyType = 127,
};

struct Alternative {
  std::vector<Schema> bases{};  // all their keywords apply, except those that express choices
  std::uint32_t types = kAnyType;
};

/// Splits a set of schemas into alternatives without choices.
///
/// A value must satisfy all schemas of a set. Members of allOf and targets of $ref join the set; each anyOf,
/// oneOf, not and if splits it into alternatives. The remaining keywords of an alternative are simply
/// combined. The options of oneOf must be provably disjoint, or are made disjoint by negation.
class SchemaParts {
 public:
  explicit SchemaParts(SchemaSource& source) : source_(source) {}

  std::vector<Alternative> alternatives(const SchemaSet& set);
  /// Returns a superset of the valid values: `oneOf` is treated as `anyOf`, `not` and conditions are ignored.
  std::vector<Alternative> loose_alternatives(const SchemaSet& set);

  /// Limits combined over all schemas of an alternative.
  // the smallest; kUnbounded if absent
  std::uint32_t max_of(const Alternative& part, const char* keyword) const;
  std::uint32_t min_of(const Alternative& part, const char* keyword) const;  // the largest; 0 if absent

  /// Returns the schemas that apply to a property's value.
  SchemaSet of_property(const Alternative& part, const std::string& name);
  SchemaSet of_item(const Alternative& part, std::size_t index) const;
  std::size_t first_items(const Alternative& part) const;
  /// Returns the required names, sorted.
  std::vector<std::string> required(const Alternative& part) const;
  /// Returns the enum or const values that satisfy the whole alternative; `has`: it has an enum or const.
  std::vector<Json> constants(const Alternative& part, bool& has);

  /// Adds patterns, lengths, formats and excluded texts to the product. Returns false if strings are not
  /// restricted.
  bool add_string_parts(const Alternative& part, CharProduct& product);

 private:
  using Names = const std::vector<std::string>*;
  /// Sets names_of_others_ for its lifetime.
  class NamesInForce {
   public:
    NamesInForce(SchemaParts& parts, Names names)
        : parts_(parts), before_(std::exchange(parts.names_of_others_, names)) {}
    ~NamesInForce() { parts_.names_of_others_ = before_; }
    NamesInForce(const NamesInForce&) = delete;
    NamesInForce& operator=(const NamesInForce&) = delete;

   private:
    SchemaParts& parts_;
    const Names before_;
  };

  struct Open;
  std::vector<Alternative> taken_apart(const SchemaSet& set, bool loose);
  void expand(Schema schema, Open& open);
  void expand_choices(Schema schema, Open& open);
  void divide(Open open, std::vector<Alternative>& found);
  std::vector<SchemaSet> exclusive(const Json& options, const Open& open);

  // -- negation
  std::vector<Schema> negated(Schema schema);
  void negate_keyword(const Json& schema, const Json::Member& keyword, std::vector<Schema>& found);

  void negate_one_of(const Json& options, std::vector<Schema>& found);
  void negate_for_names(const Json& schema, const std::string& keyword, std::vector<Schema>& found);

  // -- disjointness
  bool disjoint(const std::vector<Alternative>& a, const std::vector<Alternative>& b, std::size_t depth);
  bool disjoint(const Alternative& a, const Alternative& b, std::size_t depth);
  bool disjoint_objects(const Alternative& a, const Alternative& b, std::size_t depth);
  bool disjoint_arrays(const Alternative& a, const Alternative& b, std::size_t depth);
  bool disjoint_numbers(const Alternative& a, const Alternative& b) const;

  bool only_empty_lists_in_common(const std::vector<Alternative>& a, const std::vector<Alternative>& b);

  SchemaSource& source_;
  /// Set while negating a schema for values whose members can only have these names; null: names are not
  /// limited.
  Names names_of_others_ = nullptr;
  std::size_t looked_at_ = 0;
};

std::uint32_t types_of(const Json& types);

/// Keys that the schemas of an object do not mention, when none has `additionalProperties`.
enum class OtherKeys : std::uint8_t {
  kAllowed,  // allowed, as in the specification
  // allowed only if no schema declares properties; for tool arguments, so that the model invents none
  kIfDeclared,
};

/// Returns the node of a valid value, which ends at `builder.end()`.
NodeId json_schema_value(ProgramBuilder& builder, const Json& schema,
                         OtherKeys other_keys = OtherKeys::kAllowed);

NodeId any_json_object(ProgramBuilder& builder);

}  // namespace reprise::protocol::grammar
