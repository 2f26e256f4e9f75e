#include "protocol/grammar/char_set.h"

#include <algorithm>

namespace reprise::protocol::grammar {
namespace {

constexpr std::uint32_t kFirstSurrogate = 0xD800;
constexpr std::uint32_t kLastSurrogate = 0xDFFF;

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) {
  for (const CharRange& range : ranges) add(range.low, range.high);
}

CharSet::CharSet(std::vector<CharRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (const CharRange& range : ranges) add(range.low, range.high);
}

CharSet CharSet::all() {
  return {{0, kMostCodePoint}};
}

void CharSet::add(std::uint32_t low, std::uint32_t high) {
  if (low > high) return;
  if (low <= kLastSurrogate && high >= kFirstSurrogate) {  // in two pieces
    if (low < kFirstSurrogate) add(low, kFirstSurrogate - 1);
    if (high > kLastSurrogate) add(kLastSurrogate + 1, high);
    return;
  }
  const auto touches = [](const CharRange& range, std::uint32_t first) { return range.high + 1 < first; };
  auto at = std::lower_bound(ranges_.begin(), ranges_.end(), low, touches);
  auto end = at;
  while (end != ranges_.end() && end->low <= high + 1) {
    low = std::min(low, end->low);
    high = std::max(high, end->high);
    ++end;
  }
  at = ranges_.erase(at, end);
  ranges_.insert(at, {low, high});
}

void CharSet::add(const CharSet& other) {
  for (const CharRange& range : other.ranges_) add(range.low, range.high);
}

CharSet CharSet::complement() const {
  CharSet rest;
  std::uint32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.low > next) rest.add(next, range.low - 1);
    next = range.high + 1;
  }
  if (next <= kMostCodePoint) rest.add(next, kMostCodePoint);
  return rest;
}

bool CharSet::has(std::uint32_t code_point) const {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), code_point,
                                   [](const CharRange& range, std::uint32_t c) { return range.high < c; });
  return at != ranges_.end() && at->low <= code_point;
}

}  // namespace reprise::protocol::grammar
