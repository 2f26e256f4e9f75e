#include "protocol/grammar/characters.h"

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
  return {{0, kMaxCodePoint}};
}

void CharSet::add(std::uint32_t low, std::uint32_t high) {
  if (low > high) return;
  if (low <= kLastSurrogate && high >= kFirstSurrogate) {  // add the parts below and above
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
  if (next <= kMaxCodePoint) rest.add(next, kMaxCodePoint);
  return rest;
}

bool CharSet::has(std::uint32_t code_point) const {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), code_point,
                                   [](const CharRange& range, std::uint32_t c) { return range.high < c; });
  return at != ranges_.end() && at->low <= code_point;
}

namespace {

// Layout: kind in the top 4 bits. kRaw: length 2 bits, bytes left 2 bits, value 21 bits. kHex, kLowHex:
// digits so far 2 bits, high surrogate minus 0xD800 10 bits, value 16 bits.
enum PartKind : std::uint32_t { kBetween, kRaw, kBackslash, kHex, kPairBackslash, kPairU, kLowHex };

constexpr CharProgress pack(PartKind kind, std::uint32_t rest) {
  return static_cast<std::uint32_t>(kind) << 28 | rest;
}
constexpr PartKind kind_of(CharProgress progress) {
  return static_cast<PartKind>(progress >> 28);
}

CharStep whole(std::uint32_t code_point) {
  return {.kind = CharStep::Kind::kWhole, .code_point = code_point};
}

CharStep part(CharProgress progress, CharRange possible, CharRange possible2 = {1, 0}) {
  return {.kind = CharStep::Kind::kPart, .progress = progress, .possible = possible, .possible2 = possible2};
}

// `value` holds the bits so far of a character of `length` bytes, of which `left` are missing.
CharStep raw_step(std::uint32_t length, std::uint32_t left, std::uint32_t value) {
  constexpr std::uint32_t kMin[] = {0, 0, 0x80, 0x800, 0x10000};
  std::uint32_t low = value << (6 * left);
  std::uint32_t high = low | ((1U << (6 * left)) - 1);
  low = std::max(low, kMin[length]);
  high = std::min(high, kMaxCodePoint);
  if (low >= 0xD800 && low <= 0xDFFF) low = 0xE000;
  if (high >= 0xD800 && high <= 0xDFFF) high = 0xD7FF;
  if (low > high) return {};
  if (left == 0) return whole(low);
  return part(pack(kRaw, (length - 1) << 26 | left << 24 | value), {low, high});
}

CharStep first_byte(std::uint8_t byte) {
  if (byte < 0x80) return whole(byte);
  if (byte >= 0xC2 && byte <= 0xDF) return raw_step(2, 1, byte & 0x1F);
  if (byte >= 0xE0 && byte <= 0xEF) return raw_step(3, 2, byte & 0x0F);
  if (byte >= 0xF0 && byte <= 0xF4) return raw_step(4, 3, byte & 0x07);
  return {};
}

int hex_value(std::uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const int low = byte | 0x20;
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

// After \u with `digits` of four read, giving `value`.
CharStep hex_step(std::uint32_t digits, std::uint32_t value) {
  const std::uint32_t shift = 4 * (4 - digits);
  const std::uint32_t low = value << shift;
  const std::uint32_t high = low | ((1U << shift) - 1);
  if (digits == 4) {
    if (value >= 0xDC00 && value <= 0xDFFF) return {};
    if (value < 0xD800 || value > 0xDFFF) return whole(value);
    const std::uint32_t from = 0x10000 + ((value - 0xD800) << 10);
    return part(pack(kPairBackslash, (value - 0xD800) << 16), {from, from | 0x3FF});
  }
  CharRange single{low, high};  // excluding surrogates
  if (single.low >= 0xD800 && single.low <= 0xDFFF) single.low = 0xE000;
  if (single.high >= 0xD800 && single.high <= 0xDFFF) single.high = 0xD7FF;
  CharRange pair{std::max(low, 0xD800U), std::min(high, 0xDBFFU)};
  if (pair.low <= pair.high) {
    pair = {0x10000 + ((pair.low - 0xD800) << 10), 0x10000 + ((pair.high - 0xD800) << 10 | 0x3FF)};
  }
  if (single.low > single.high && pair.low > pair.high) return {};
  return part(pack(kHex, digits << 26 | value), single, pair);
}

CharStep low_hex_step(std::uint32_t digits, std::uint32_t high_surrogate, std::uint32_t value) {
  const std::uint32_t shift = 4 * (4 - digits);
  const std::uint32_t low = std::max(value << shift, 0xDC00U);
  const std::uint32_t high = std::min(value << shift | ((1U << shift) - 1), 0xDFFFU);
  if (low > high) return {};
  const std::uint32_t base = 0x10000 + (high_surrogate << 10);
  if (digits == 4) return whole(base + (low - 0xDC00));
  return part(pack(kLowHex, digits << 26 | high_surrogate << 16 | value),
              {base + (low - 0xDC00), base + (high - 0xDC00)});
}

CharStep escaped(std::uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return whole(byte);
    case 'b':
      return whole('\b');
    case 'f':
      return whole('\f');
    case 'n':
      return whole('\n');
    case 'r':
      return whole('\r');
    case 't':
      return whole('\t');
    case 'u':
      return hex_step(0, 0);
    default:
      return {};
  }
}

}  // namespace

CharStep utf8_step(CharProgress progress, std::uint8_t byte) {
  if (progress == 0) return first_byte(byte);
  if (byte < 0x80 || byte > 0xBF) return {};
  const std::uint32_t length = (progress >> 26 & 3) + 1;
  const std::uint32_t left = progress >> 24 & 3;
  return raw_step(length, left - 1, (progress & 0x1FFFFF) << 6 | (byte & 0x3FU));
}

CharStep json_step(CharProgress progress, std::uint8_t byte) {
  const std::uint32_t value = progress & 0xFFFF;
  const std::uint32_t digits = progress >> 26 & 3;
  const std::uint32_t high_surrogate = progress >> 16 & 0x3FF;
  switch (kind_of(progress)) {
    case kBetween:
      if (byte == '"') return {.kind = CharStep::Kind::kQuote};
      if (byte == '\\') return part(pack(kBackslash, 0), {0, kMaxCodePoint});
      if (byte < 0x20) return {};
      return first_byte(byte);
    case kRaw:
      return utf8_step(progress, byte);
    case kBackslash:
      return escaped(byte);
    case kHex: {
      const int hex = hex_value(byte);
      return hex < 0 ? CharStep{} : hex_step(digits + 1, value << 4 | static_cast<std::uint32_t>(hex));
    }
    case kPairBackslash:
    case kPairU: {
      if (byte != (kind_of(progress) == kPairU ? 'u' : '\\')) return {};
      const std::uint32_t from = 0x10000 + (high_surrogate << 10);
      if (kind_of(progress) == kPairU) return low_hex_step(0, high_surrogate, 0);
      return part(pack(kPairU, high_surrogate << 16), {from, from | 0x3FF});
    }
    case kLowHex: {
      const int hex = hex_value(byte);
      if (hex < 0) return {};
      return low_hex_step(digits + 1, high_surrogate, value << 4 | static_cast<std::uint32_t>(hex));
    }
  }
  return {};
}

}  // namespace reprise::protocol::grammar
