#include "base/json_diagnosis.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/utf8.h"

namespace reprise {
namespace {

class Reader {
 public:
  Reader(std::string_view text, const JsonLimits& limits, const JsonReading& reading)
      : text_(text), limits_(limits), reading_(reading) {}

  JsonFault run() {
    if (!read_document() || !fault_.reason.empty()) return fault_;
    return {};
  }

 private:
  bool fail(std::string reason) { return fail_at(at_, std::move(reason)); }
  bool fail_at(std::size_t offset, std::string reason) {
    if (fault_.reason.empty()) fault_ = {offset, std::move(reason)};
    return false;
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }

  // Open arrays and objects are kept on a stack of our own: '[' or '{' each.
  bool read_document() {
    skip_space();
    if (at_end()) return fail("there is no value");
    std::vector<char> open;
    for (bool wants_value = true;;) {
      skip_space();
      if (wants_value) {
        if (!at_end() && ++values_ > limits_.values) {
          return fail("more than " + std::to_string(limits_.values) + " values");
        }
        if (peek() == '[' || peek() == '{') {
          if (open.size() >= limits_.depth) {
            return fail("nested deeper than " + std::to_string(limits_.depth));
          }
          open.push_back(text_[at_++]);
          skip_space();
          if (peek() == (open.back() == '[' ? ']' : '}') && !at_end()) {
            ++at_;
            open.pop_back();
            wants_value = false;
          } else if (open.back() == '{' && !read_key()) {
            return false;
          }
          continue;
        }
        if (!read_scalar()) return false;
        wants_value = false;
        continue;
      }
      if (open.empty()) return at_end() || fail("there is text behind the value");
      if (at_end()) return fail(open.back() == '[' ? "an array is not closed" : "an object is not closed");
      const char close = open.back() == '[' ? ']' : '}';
      if (peek() == close) {
        ++at_;
        open.pop_back();
      } else if (peek() == ',') {
        ++at_;
        skip_space();
        if (open.back() == '{' && !read_key()) return false;
        wants_value = true;
      } else {
        return fail(std::string("expected ',' or '") + close + "'");
      }
    }
  }

  bool read_key() {
    if (peek() != '"') return fail("expected a key in quotes");
    if (++members_ > limits_.members) {
      return fail("more than " + std::to_string(limits_.members) + " members of objects");
    }
    if (!read_string()) return false;
    skip_space();
    if (peek() != ':') return fail("expected ':' after a key");
    ++at_;
    return true;
  }

  bool read_scalar() {
    const char c = peek();
    if (at_end()) return fail("the text ends where a value is expected");
    if (c == '"') return read_string();
    if (reading_.python && take_word({"NaN", "Infinity", "-Infinity"})) return true;
    if (c == '-' || (c >= '0' && c <= '9')) return read_number();
    return take_word({"true", "false", "null"}) || fail("expected a value");
  }

  bool take_word(std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return true;
      }
    }
    return false;
  }

  bool read_digits() {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > start;
  }

  static bool fits_64_bits(std::string_view digits) {
    const char* end = digits.data() + digits.size();
    std::uint64_t magnitude = 0;
    std::int64_t negative = 0;
    const auto read = digits.front() == '-' ? std::from_chars(digits.data(), end, negative)
                                            : std::from_chars(digits.data(), end, magnitude);
    return read.ec == std::errc();
  }

  bool read_number() {
    const std::size_t start = at_;
    if (peek() == '-') ++at_;
    const bool zero = peek() == '0';
    const std::size_t first = at_;
    if (!read_digits()) return fail("a '-' without digits");
    if (zero && at_ - first > 1) return fail_at(start, "a number with a leading zero");
    bool whole = true;
    if (peek() == '.') {
      whole = false;
      ++at_;
      if (!read_digits()) return fail("a number without digits behind its point");
    }
    if (peek() == 'e' || peek() == 'E') {
      whole = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!read_digits()) return fail("a number without digits in its exponent");
    }
    if (whole && !fits_64_bits(text_.substr(start, at_ - start))) too_long_ = start;
    return true;
  }

  bool read_hex4(std::uint32_t& value) {
    value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return fail("\\u without four hexadecimal digits");
      value = value << 4 | static_cast<std::uint32_t>(digit);
    }
    return true;
  }

  bool read_escape() {
    const std::size_t start = at_++;
    const char c = peek();
    ++at_;
    if (c != 'u') {
      if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos || c == '\0') {
        return fail_at(start, "an escape that JSON does not have");
      }
      return true;
    }
    std::uint32_t unit = 0;
    if (!read_hex4(unit)) return false;
    if (unit >= 0xDC00 && unit <= 0xDFFF) return fail_at(start, "half of a surrogate pair");
    if (unit < 0xD800 || unit > 0xDBFF) return true;
    if (!text_.substr(at_).starts_with("\\u")) return fail_at(start, "half of a surrogate pair");
    at_ += 2;
    if (!read_hex4(unit)) return false;
    return (unit >= 0xDC00 && unit <= 0xDFFF) || fail_at(start, "half of a surrogate pair");
  }

  bool read_string() {
    const std::size_t start = at_++;
    while (!at_end()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c == '\\') {
        if (!read_escape()) return false;
      } else if (c < 0x20) {
        return fail("a control character inside a string");
      } else {
        const Utf8Char character = read_utf8(text_, at_);
        if (!character.is_valid) return fail("invalid UTF-8");
        at_ += character.length;
      }
    }
    return fail_at(start, "a string is not closed");
  }

 public:
  std::optional<std::size_t> long_integer() const { return too_long_; }

 private:
  std::string_view text_;
  const JsonLimits& limits_;
  const JsonReading& reading_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  std::size_t members_ = 0;
  JsonFault fault_;
  std::optional<std::size_t> too_long_;  // where an integer stands that does not fit 64 bits
};

}  // namespace

JsonFault diagnose_json(std::string_view text, const JsonLimits& limits, const JsonReading& reading) {
  Reader reader(text, limits, reading);
  JsonFault fault = reader.run();
  if (fault.reason.empty() && !reading.python && reader.long_integer()) {
    fault = {*reader.long_integer(), "an integer that does not fit 64 bits"};
  }
  return fault;
}

}  // namespace reprise
