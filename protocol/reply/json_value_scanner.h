#pragma once
// JsonValueScanner: finds where a JSON value ends, character by character. It counts brackets and knows
// strings; it does not judge what is between them, so that arguments a model got wrong still reach the
// client, but characters that JSON has nowhere outside of strings end the value.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>

namespace reprise::protocol {

class JsonValueScanner {
 public:
  enum class Step : std::uint8_t {
    kInside,
    kLast,  // the value ends with this character
    kPast,  // the value ended before it
    kBad,   // it can be no part of JSON
  };

  bool in_string() const { return in_string_; }

  Step put(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        if (depth_ == 0) return Step::kLast;
      }
      return Step::kInside;
    }
    switch (c) {
      case '"':
        if (in_word_) return Step::kPast;
        in_string_ = true;
        return Step::kInside;
      case '{':
      case '[':
        if (in_word_) return Step::kPast;
        ++depth_;
        return Step::kInside;
      case '}':
      case ']':
        if (depth_ == 0) return in_word_ ? Step::kPast : Step::kBad;
        return --depth_ == 0 ? Step::kLast : Step::kInside;
      case ',':
      case ':':
      case ' ':
      case '\t':
      case '\r':
      case '\n':
        if (depth_ == 0) return in_word_ ? Step::kPast : Step::kBad;
        return Step::kInside;
      default:
        break;
    }
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '-' || c == '+' || c == '.' || c == '_';
    if (!word) return in_word_ ? Step::kPast : Step::kBad;
    if (depth_ == 0) in_word_ = true;
    return Step::kInside;
  }

 private:
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool in_word_ = false;  // a number or a word that is the whole value
};

}  // namespace reprise::protocol
