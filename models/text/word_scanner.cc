#include "models/text/word_scanner.h"

#include "base/utf8.h"
#include "models/text/unicode.h"

namespace reprise::models {
namespace {

// The next character; class 0 after the end of the text.
struct Ahead {
  std::uint8_t bits = 0;
  std::uint8_t length = 0;
};

class Scanner {
 public:
  Scanner(const WordPattern& pattern, std::string_view text, std::uint64_t& scanned)
      : pattern_(pattern), text_(text), scanned_(scanned) {
    if (pattern.marks_are_letters) word_ |= kMark;
    symbol_ = kOther | (pattern.marks_are_letters ? 0 : kMark);
  }

  std::size_t gpt2(std::size_t begin) {
    if (text_[begin] == '\'') {
      if (const std::size_t length = contraction(begin)) return begin + length;
    }
    // ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+`
    const std::size_t after_space = begin + (text_[begin] == ' ' ? 1 : 0);
    const Ahead first = look(after_space);
    for (const std::uint8_t wanted : {kLetter, kNumber}) {
      if (first.bits & wanted) return run(after_space + first.length, wanted);
    }
    constexpr std::uint8_t kRest = kOther | kMark;
    if (first.bits & kRest) return run(after_space + first.length, kRest);
    return spaces(begin);
  }

  std::size_t llama3(std::size_t begin) {
    const Ahead first = look(begin);
    if (text_[begin] == '\'') {
      if (const std::size_t length = contraction(begin)) return begin + length;
    }
    // `[^\r\n\p{L}\p{N}]?\p{L}+`
    if (first.bits & kLetter) return run(begin + first.length, word_);
    if (!(first.bits & (kNewline | kNumber))) {
      const Ahead second = look(begin + first.length);
      if (second.bits & word_) return run(begin + first.length + second.length, word_);
      if (first.bits & word_) return begin + first.length;
    }
    if (first.bits & kNumber) return digits(begin + first.length);
    // ` ?[^\s\p{L}\p{N}]+[\r\n]*`
    const std::size_t after_space = begin + (text_[begin] == ' ' ? 1 : 0);
    const Ahead symbol = look(after_space);
    if (symbol.bits & symbol_) return run(run(after_space + symbol.length, symbol_), kNewline);
    return spaces(begin);
  }

 private:
  Ahead look(std::size_t at) {
    if (at >= text_.size()) return {};
    ++scanned_;
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) return {kAsciiClass[byte], 1};
    const Utf8Char read = read_valid_utf8(text_, at);
    return {wide_char_class(read.code_point), read.length};
  }

  // The end of the run of characters that have one of these bits.
  std::size_t run(std::size_t at, std::uint8_t bits) {
    for (Ahead next = look(at); next.bits & bits; next = look(at)) at += next.length;
    return at;
  }

  std::size_t digits(std::size_t at) {  // after the first digit
    for (int count = 1; pattern_.max_digits == 0 || count < pattern_.max_digits; ++count) {
      const Ahead next = look(at);
      if (!(next.bits & kNumber)) break;
      at += next.length;
    }
    return at;
  }

  // The byte at `at` and its character's length, lower-cased if the pattern ignores case (kUnicode: U+017F
  // becomes 's'); 0 at the end.
  char letter(std::size_t at, std::size_t& length) const {
    if (at >= text_.size()) return 0;
    length = 1;
    const char c = text_[at];
    if (pattern_.contractions == WordPattern::Case::kLower) return c;
    if (c >= 'A' && c <= 'Z') return static_cast<char>(c + 32);
    if (pattern_.contractions == WordPattern::Case::kUnicode && text_.substr(at, 2) == "\u017F") {
      length = 2;
      return 's';
    }
    return c;
  }

  // Length of 's, 't, 're, 've, 'm, 'll or 'd at the apostrophe; 0: none.
  std::size_t contraction(std::size_t at) const {
    std::size_t length = 0;
    const char first = letter(at + 1, length);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1 + length;
    const char second = letter(at + 2, length);
    const bool is_pair =
        (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return is_pair ? 3 : 0;
  }

  // `\s*[\r\n]+|\s+(?!\S)|\s+`; the first alternative only for Llama 3.
  std::size_t spaces(std::size_t begin) {
    std::size_t end = begin, last = begin, newline_end = begin;
    for (Ahead next = look(end); next.bits & kSpace; next = look(end)) {
      last = end;
      end += next.length;
      if (next.bits & kNewline) newline_end = end;
    }
    if (pattern_.family == WordPattern::Family::kLlama3 && newline_end > begin) return newline_end;
    // The last space belongs to the following word.
    if (end < text_.size() && last > begin) return last;
    return end;
  }

  const WordPattern& pattern_;
  std::string_view text_;
  std::uint64_t& scanned_;
  std::uint8_t word_ = kLetter;
  std::uint8_t symbol_ = kOther;
};

}  // namespace

std::string regex(const WordPattern& pattern) {
  if (pattern.family == WordPattern::Family::kGpt2) {
    return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  }
  std::string out;
  switch (pattern.contractions) {
    case WordPattern::Case::kLower:
      out = "(?:'s|'t|'re|'ve|'m|'ll|'d)";
      break;
    case WordPattern::Case::kAscii:
      out = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
      break;
    case WordPattern::Case::kUnicode:
      out = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
      break;
  }
  out += R"(|[^\r\n\p{L}\p{N}]?)";
  out += pattern.marks_are_letters ? R"([\p{L}\p{M}]+)" : R"(\p{L}+)";
  out += R"(|\p{N})";
  if (pattern.max_digits == 0) out += "+";
  if (pattern.max_digits > 1) out += "{1," + std::to_string(pattern.max_digits) + "}";
  out += pattern.marks_are_letters ? R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" : R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)";
  out += R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  return out;
}

std::optional<WordPattern> find_word_pattern(std::string_view text) {
  WordPattern gpt2;
  gpt2.family = WordPattern::Family::kGpt2;
  gpt2.contractions = WordPattern::Case::kLower;
  if (text == regex(gpt2)) return gpt2;

  WordPattern candidate;
  for (const auto contractions :
       {WordPattern::Case::kLower, WordPattern::Case::kAscii, WordPattern::Case::kUnicode}) {
    for (const bool marks : {false, true}) {
      for (const int digits : {0, 1, 2, 3}) {
        candidate.contractions = contractions;
        candidate.marks_are_letters = marks;
        candidate.max_digits = digits;
        if (text == regex(candidate)) return candidate;
      }
    }
  }
  return std::nullopt;
}

std::size_t next_word(const WordPattern& pattern, std::string_view text, std::size_t begin,
                      std::uint64_t& scanned) {
  Scanner scanner(pattern, text, scanned);
  return pattern.family == WordPattern::Family::kGpt2 ? scanner.gpt2(begin) : scanner.llama3(begin);
}

}  // namespace reprise::models
