#pragma once
// JSON Schema to a program whose texts are the values that fit.
//
// Every keyword that says which values fit is kept, or the schema is refused with a GrammarError that begins with the
// keyword: never ignored. Keywords that are annotations to the specification say nothing, `format`s that it does
// not define among them.
//
// SchemaSource reads the document, SchemaParts takes sets of its schemas apart, json_schema_value() makes nodes of them.
//
// Threading: one thread, for one compilation.

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

/// A GrammarError that begins with the keyword.
[[noreturn]] void fail_at(std::string_view keyword, const std::string& what);

/// The value of a keyword that must have that kind.
const Json::Array& list_at(std::string_view keyword, const Json& value);
const Json::Object& object_at(std::string_view keyword, const Json& value);

/// Of the value with all that is in it, about.
std::size_t bytes_of(const Json& value, WorkBudget& budget);

/// A JSON Schema document, where its `$ref`s lead within it, and what its keywords are called. Nothing is
/// ever fetched: a reference that leads out of the document is an error. Schemas are pointers into the
/// document, or into what was made for it.
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

/// Sorted, each once; empty: any value fits.
using SchemaSet = std::vector<Schema>;

enum ValueType : std::uint32_t {
  kNullType = 1,
  kBoolType = 2,
  kIntegerType = 4,
  kFractionType = 8,  // numbers that are no integers; with kIntegerType: numbers
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAnyType = 127,
};

struct Alternative {
  std::vector<Schema> bases{};  // their keywords but those about choices are all to be kept
  std::uint32_t types = kAnyType;
};

/// What a set of schemas says together, taken apart into alternatives without choices.
///
/// Schemas that a value must all fit are one set; their allOf and $ref members join it, and each anyOf, oneOf, not and
/// if divides it into alternatives. What is left in an alternative are keywords about one value, whose limits are
/// simply all to be kept. oneOf's alternatives must be shown to exclude each other, or are made to by negation.
class SchemaParts {
 public:
  explicit SchemaParts(SchemaSource& source) : source_(source) {}

  std::vector<Alternative> alternatives(const SchemaSet& set);
  /// They may have more values than fit: `oneOf` is taken for `anyOf`, and `not` and conditions say nothing.
  std::vector<Alternative> loose_alternatives(const SchemaSet& set);

  /// A bound over all schemas of an alternative; `found` where there is none.
  std::uint32_t most_of(const Alternative& part, const char* keyword) const;   // the smallest
  std::uint32_t least_of(const Alternative& part, const char* keyword) const;  // the largest, else 0

  /// What a property's value must fit.
  SchemaSet of_property(const Alternative& part, const std::string& name);
  SchemaSet of_item(const Alternative& part, std::size_t index) const;
  std::size_t first_items(const Alternative& part) const;
  /// Names that must be there, sorted.
  std::vector<std::string> required(const Alternative& part) const;
  /// Constants that fit all of it; `has` where it has any enum or const.
  std::vector<Json> constants(const Alternative& part, bool& has);

  /// Patterns, lengths, formats and excluded texts, into a product. False: nothing is said of strings.
  bool add_string_parts(const Alternative& part, CharProduct& product);

 private:
  using Names = const std::vector<std::string>*;
  /// names_of_others_ for a while.
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
  /// While something is negated for values whose members can have these names alone; null: that is not known.
  Names names_of_others_ = nullptr;
  std::size_t looked_at_ = 0;
};

/// The types that a `type` keyword names.
std::uint32_t types_of(const Json& types);

/// Keys that an object's schemas do not speak of, where none of them has `additionalProperties`.
enum class OtherKeys : std::uint8_t {
  kAllowed,     // as the specification has it
  kIfDeclared,  // only where no schema declares a property: arguments of tools have no invented ones
};

/// The value that fits the schema, ending at `builder.end()`.
NodeId json_schema_value(ProgramBuilder& builder, const Json& schema,
                         OtherKeys other_keys = OtherKeys::kAllowed);

/// Any JSON object.
NodeId any_json_object(ProgramBuilder& builder);

}  // namespace reprise::protocol::grammar
