#pragma once
// SchemaParts: what a set of schemas says together, taken apart into alternatives without choices.
//
// Schemas that a value must all fit are one set; their allOf and $ref members join it, and each anyOf, oneOf, not and
// if divides it into alternatives. What is left in an alternative are keywords about one value, whose limits are
// simply all to be kept. oneOf's alternatives must be shown to exclude each other, or are made to by negation.
//
// Threading: one thread, for one compilation.

#include <set>
#include <utility>
#include <vector>

#include "protocol/grammar/schema_source.h"

namespace reprise::protocol::grammar {

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
  bool add_string_parts(const Alternative& part, class CharProduct& product);

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

}  // namespace reprise::protocol::grammar
