// Whether two alternatives surely have no value in common. False: perhaps they have.

#include <algorithm>
#include <limits>

#include "protocol/grammar/program.h"
#include "protocol/grammar/schema_parts.h"

namespace reprise::protocol::grammar {
namespace {

constexpr std::size_t kDeepest = 3;

struct NumberRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_strict = false;
  bool high_strict = false;
};

NumberRange range_of(const Alternative& part) {
  NumberRange range;
  const auto raise = [&](double low, bool strict) {
    if (low > range.low || (low == range.low && strict)) range.low = low, range.low_strict = strict;
  };
  const auto lower = [&](double high, bool strict) {
    if (high < range.high || (high == range.high && strict)) range.high = high, range.high_strict = strict;
  };
  for (const Schema base : part.bases) {
    const auto number = [&](const char* word) -> const Json* {
      const Json* found = base->find(word);
      return found != nullptr && found->is_number() ? found : nullptr;
    };
    const auto flag = [&](const char* word) {
      const Json* found = base->find(word);
      return found != nullptr && found->is_bool() && found->as_bool();
    };
    if (const Json* low = number("minimum")) raise(low->as_double(), flag("exclusiveMinimum"));
    if (const Json* high = number("maximum")) lower(high->as_double(), flag("exclusiveMaximum"));
    if (const Json* low = number("exclusiveMinimum")) raise(low->as_double(), true);
    if (const Json* high = number("exclusiveMaximum")) lower(high->as_double(), true);
  }
  return range;
}

Alternative both(const Alternative& a, const Alternative& b) {
  Alternative all = a;
  all.bases.insert(all.bases.end(), b.bases.begin(), b.bases.end());
  all.types &= b.types;
  return all;
}

}  // namespace

bool SchemaParts::disjoint(const std::vector<Alternative>& a, const std::vector<Alternative>& b,
                           std::size_t depth) {
  const WorkBudget::Level level(source_.budget());
  return std::all_of(a.begin(), a.end(), [&](const Alternative& one) {
    return std::all_of(b.begin(), b.end(),
                       [&](const Alternative& other) { return disjoint(one, other, depth); });
  });
}

bool SchemaParts::disjoint(const Alternative& a, const Alternative& b, std::size_t depth) {
  const std::uint32_t types = a.types & b.types;
  source_.budget().charge(1 + (types == 0 ? 0 : 8 * (a.bases.size() + b.bases.size())));
  if (types == 0) return true;
  const Alternative together = both(a, b);
  bool has = false;
  if (constants(together, has).empty() && has) return true;
  if (has) return false;
  if ((types & (kNullType | kBoolType)) != 0) return false;
  if ((types & (kIntegerType | kFractionType)) != 0 && !disjoint_numbers(a, b)) return false;
  if ((types & kStringType) != 0) {
    CharProduct product(source_.budget());
    if (!add_string_parts(together, product) || !product.build().empty()) return false;
  }
  if ((types & kObjectType) != 0 && !disjoint_objects(a, b, depth)) return false;
  return (types & kArrayType) == 0 || disjoint_arrays(a, b, depth);
}

bool SchemaParts::disjoint_numbers(const Alternative& a, const Alternative& b) const {
  const NumberRange range = range_of(both(a, b));
  return range.low > range.high || (range.low == range.high && (range.low_strict || range.high_strict));
}

// Some property is there, and no value of it fits both.
bool SchemaParts::disjoint_objects(const Alternative& a, const Alternative& b, std::size_t depth) {
  if (depth >= kDeepest) return false;
  const std::vector<std::string> names = required(both(a, b));
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    SchemaSet set = of_property(a, name);
    const SchemaSet other = of_property(b, name);
    const std::vector<Alternative> of_a = loose_alternatives(set);
    const std::vector<Alternative> of_b = loose_alternatives(other);
    return of_a.empty() || of_b.empty() || disjoint(of_a, of_b, depth + 1);
  });
}

bool SchemaParts::disjoint_arrays(const Alternative& a, const Alternative& b, std::size_t depth) {
  const Alternative together = both(a, b);
  const std::uint32_t least = least_of(together, "minItems");
  if (least > most_of(together, "maxItems")) return true;
  if (least == 0 || depth >= kDeepest) return false;
  return disjoint(loose_alternatives(of_item(a, 0)), loose_alternatives(of_item(b, 0)), depth + 1);
}

bool SchemaParts::only_empty_lists_in_common(const std::vector<Alternative>& a,
                                             const std::vector<Alternative>& b) {
  const Schema not_empty = source_.make(Json{{"minItems", 1}});
  source_.budget().charge(8 * a.size());
  std::vector<Alternative> longer = a;
  for (Alternative& one : longer) one.bases.push_back(not_empty);
  return disjoint(longer, b, 0);
}

}  // namespace reprise::protocol::grammar
