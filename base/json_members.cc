#include "base/json_members.h"

#include <algorithm>
#include <vector>

namespace reprise {
namespace {

constexpr std::size_t kFew = 16;  // up to here comparing each with each beats sorting

bool all_differ(const Json::Object& few) {
  for (std::size_t i = 1; i < few.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (few[i].key == few[j].key) return false;
    }
  }
  return true;
}

struct PlacedKey {
  std::string_view key;
  std::size_t place;
};

// Any order will do that puts equal keys together, in the order of their places: by length is the fastest.
bool comes_before(const PlacedKey& a, const PlacedKey& b) {
  if (a.key.size() != b.key.size()) return a.key.size() < b.key.size();
  const int order = a.key.compare(b.key);
  return order != 0 ? order < 0 : a.place < b.place;
}

std::vector<PlacedKey> sorted_keys(const Json::Object& members) {
  std::vector<PlacedKey> sorted;
  sorted.reserve(members.size());
  for (const Json::Member& member : members) sorted.push_back({member.key, sorted.size()});
  std::sort(sorted.begin(), sorted.end(), comes_before);
  return sorted;
}

}  // namespace

const std::string* repeated_key(const Json::Object& members) {
  if (members.size() <= kFew && all_differ(members)) return nullptr;
  const std::vector<PlacedKey> sorted = sorted_keys(members);
  const auto same = std::adjacent_find(sorted.begin(), sorted.end(),
                                       [](const PlacedKey& a, const PlacedKey& b) { return a.key == b.key; });
  return same == sorted.end() ? nullptr : &members[same->place].key;
}

void merge_same_keys(Json::Object& members) {
  if (members.size() <= kFew && all_differ(members)) return;
  const std::vector<PlacedKey> sorted = sorted_keys(members);

  std::vector<bool> repeats;  // by place; empty: none does
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto end = std::find_if(first + 1, sorted.end(),
                                  [&](const PlacedKey& other) { return other.key != first->key; });
    if (end - first > 1) {
      repeats.resize(members.size());
      members[first->place].value = std::move(members[(end - 1)->place].value);
      for (auto repeat = first + 1; repeat != end; ++repeat) repeats[repeat->place] = true;
    }
    first = end;
  }
  if (repeats.empty()) return;
  std::size_t place = 0;  // std::erase_if asks once for each member, in their order
  std::erase_if(members, [&](const Json::Member&) { return repeats[place++]; });
}

}  // namespace reprise
