// Filters that compare items: sorting, grouping, extremes.
#include <algorithm>
#include <set>

#include "protocol/jinja/attribute_path.h"
#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/filters/filters.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

struct Keyed {
  Value key;
  Value item;
};

Value fold_case(Workspace& workspace, Value value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return workspace.text(to_lower(value.as_string()));
}

// Stable, and of no surprise when the order is none, as with NaN: a merge sort of our own.
void sort_keyed(Workspace& workspace, std::vector<Keyed>& items, bool backwards) {
  const auto goes_before = [&](const Keyed& a, const Keyed& b) {
    return backwards ? less(workspace, b.key, a.key) : less(workspace, a.key, b.key);
  };
  std::vector<Keyed> from = std::move(items);
  std::vector<Keyed> to(from.size());
  const std::size_t size = from.size();
  for (std::size_t width = 1; width < size; width *= 2) {
    for (std::size_t start = 0; start < size; start += 2 * width) {
      const std::size_t middle = std::min(start + width, size);
      const std::size_t end = std::min(start + 2 * width, size);
      std::size_t left = start;
      std::size_t right = middle;
      for (std::size_t at = start; at < end; ++at) {
        const bool takes_right = left >= middle || (right < end && goes_before(from[right], from[left]));
        to[at] = std::move(from[takes_right ? right++ : left++]);
      }
    }
    std::swap(from, to);
  }
  items = std::move(from);
}

// The key of `sort` may have several parts: 'a,b.c'.
class SortKey {
 public:
  SortKey(Workspace& workspace, const Value* attribute, bool case_sensitive)
      : case_sensitive_(case_sensitive) {
    if (attribute == nullptr || !attribute->is_string()) {
      paths_.emplace_back(workspace, attribute);
      return;
    }
    std::string_view rest = attribute->as_string();
    for (;;) {
      const std::size_t comma = rest.find(',');
      const Value part = workspace.text(std::string(rest.substr(0, comma)));
      paths_.emplace_back(workspace, &part);
      workspace.check_items(paths_.size());
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  }

  Value of(Workspace& workspace, const Value& item) const {
    std::vector<Value> parts;
    for (const AttributePath& path : paths_) {
      parts.push_back(fold_case(workspace, path.get(workspace, item), case_sensitive_));
    }
    return workspace.list(std::move(parts));
  }

 private:
  std::vector<AttributePath> paths_;
  bool case_sensitive_;
};

std::vector<Value> items_of(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& each : keyed) items.push_back(std::move(each.item));
  return items;
}

Value sort(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const SortKey key(workspace, p.find(2), p.truth(1, false));
  std::vector<Keyed> keyed;
  for (const Value& item : to_vector(workspace, input)) keyed.push_back({key.of(workspace, item), item});
  sort_keyed(workspace, keyed, p.truth(0, false));
  return workspace.list(items_of(std::move(keyed)));
}

Value dictsort(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string_view by = p.text(1, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) fail(input.undefined_message());
  if (!input.is_dict()) fail({"dictsort works on dicts, not on ", type_name(input)});
  std::vector<Keyed> keyed;
  for (const Dict::Entry& entry : input.dict().entries()) {
    keyed.push_back({fold_case(workspace, by == "key" ? entry.key : entry.value, p.truth(0, false)),
                     workspace.tuple({entry.key, entry.value})});
  }
  sort_keyed(workspace, keyed, p.truth(2, false));
  return workspace.list(items_of(std::move(keyed)));
}

Value unique(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("unique", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(workspace, p.find(1));
  const auto before = [](const Value& a, const Value& b) { return key_order(a, b) < 0; };
  std::set<Value, decltype(before)> seen(before);
  std::vector<Value> out;
  for (const Value& item : to_vector(workspace, input)) {
    Value key = fold_case(workspace, path.get(workspace, item), p.truth(0, false));
    check_hashable(workspace, key);
    if (seen.insert(std::move(key)).second) out.push_back(item);
  }
  return workspace.iterator(std::move(out));
}

Value groupby(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("groupby", arguments, {"attribute", "default", "case_sensitive"});
  const AttributePath path(workspace, &p.need(0));
  const bool case_sensitive = p.truth(2, false);
  std::vector<Keyed> keyed;
  for (const Value& item : to_vector(workspace, input)) {
    keyed.push_back({fold_case(workspace, path.get(workspace, item, p.find(1)), case_sensitive), item});
  }
  sort_keyed(workspace, keyed, false);
  std::vector<Value> groups;
  for (std::size_t at = 0; at < keyed.size();) {
    const std::size_t start = at;
    std::vector<Value> members;
    while (at < keyed.size() && equals(workspace, keyed[at].key, keyed[start].key)) {
      members.push_back(keyed[at++].item);
    }
    if (at == start) members.push_back(keyed[at++].item);  // NaN, which equals nothing
    const Value name = case_sensitive ? keyed[start].key : path.get(workspace, keyed[start].item, p.find(1));
    groups.push_back(workspace.list({name, workspace.list(std::move(members))}, List::Flavor::kGroup));
  }
  return workspace.list(std::move(groups));
}

Value extreme(Workspace& workspace, const Value& input, const Arguments& arguments, bool wants_most) {
  const Parameters p(wants_most ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(workspace, p.find(1));
  Cursor cursor(workspace, input);
  Value best;
  if (!cursor.next(best)) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& v) {
    return fold_case(workspace, path.get(workspace, v), p.truth(0, false));
  };
  Value best_key = key_of(best);
  Value item;
  while (cursor.next(item)) {
    Value key = key_of(item);
    if (wants_most ? less(workspace, best_key, key) : less(workspace, key, best_key)) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

constexpr NamedFilter kOrderFilters[] = {
    {"dictsort", dictsort},
    {"groupby", groupby},
    {"max", [](Workspace& w, const Value& v, const Arguments& a) { return extreme(w, v, a, true); }},
    {"min", [](Workspace& w, const Value& v, const Arguments& a) { return extreme(w, v, a, false); }},
    {"sort", sort},
    {"unique", unique},
};

}  // namespace

std::span<const NamedFilter> order_filters() {
  return kOrderFilters;
}

}  // namespace reprise::protocol::jinja
