// tokenizer.json, tokenizer.model, the regular expressions in them, and the patterns with a handwritten
// scanner. An input is a file or pattern, a zero byte, and the text to encode; without a zero byte it is
// both.
#include "models/text/tokenizer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "models/text/regex.h"
#include "models/text/sentencepiece_file.h"
#include "models/text/text_stream.h"
#include "models/text/tokenizer_json.h"
#include "models/text/word_scanner.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

using namespace models;

std::pair<std::string_view, std::string_view> file_and_text(std::string_view input) {
  const std::size_t zero = input.find('\0');
  if (zero == std::string_view::npos) return {input, input};
  return {input.substr(0, zero), input.substr(zero + 1)};
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  append_valid_utf8(out, text);
  return out;
}

void check_encoding(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {true, false}) {
    const auto ids = tokenizer.encode(text, {.parse_special = special});
    std::string streamed;
    TextStream stream(tokenizer, {.skip_special = special});
    for (const TokenId id : ids) {
      REPRISE_CHECK(id >= 0 && static_cast<std::size_t>(id) < tokenizer.vocab_size(), "an id that is none");
      streamed += stream.push(id);
    }
    streamed += stream.flush();
    const std::string decoded = tokenizer.decode(ids, {.skip_special = special});
    REPRISE_CHECK(decoded == streamed, "the stream gives another text");
    REPRISE_CHECK(valid_utf8_prefix(decoded) == decoded.size(), "text that is no UTF-8");
  }
}

}  // namespace

bool fuzz_tokenizer(std::string_view input) {
  const auto [file, text] = file_and_text(input);
  try {
    const JsonLocation json = JsonLocation::parse(file, "tokenizer.json");
    const Tokenizer tokenizer(spec_of_json(json, text.size() % 4 == 0 ? std::optional(json) : std::nullopt));
    check_encoding(tokenizer, text);
    for (std::size_t id = 0; id < tokenizer.vocab_size() && id < 64; ++id) {
      const std::string_view token = tokenizer.token_text(static_cast<TokenId>(id));
      REPRISE_CHECK(token.empty() || tokenizer.find(token).has_value(), "a token that is not found");
    }
    return true;
  } catch (const LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
  } catch (const RegexError&) {  // the search exceeded its limits
  }
  return false;
}

/// tokenizer.model; its last bytes are also the text to encode.
bool fuzz_sentencepiece(std::string_view input) {
  try {
    const Tokenizer tokenizer(spec_of_sentencepiece(input, "tokenizer.model"));
    check_encoding(tokenizer,
                   valid_utf8(input.substr(input.size() - std::min<std::size_t>(input.size(), 64))));
    return true;
  } catch (const LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
  } catch (const RegexError&) {  // the search exceeded its limits
  }
  return false;
}

bool fuzz_regex(std::string_view input) {
  const auto [pattern, rest] = file_and_text(input);
  const std::string text = valid_utf8(rest);
  try {
    const Regex regex(to_pcre2(pattern));
    Regex::Matcher matcher(regex);
    matcher.start(text);
    std::size_t last = 0;
    for (std::size_t matches = 0; matcher.next(); ++matches) {
      REPRISE_CHECK(matches <= text.size() + 1, "more matches than characters");
      REPRISE_CHECK(
          matcher.begin() >= last && matcher.begin() <= matcher.end() && matcher.end() <= text.size(),
          "a match out of place");
      last = matcher.end();
    }
    const Regex quoted(quote_regex(text));
    Regex::Matcher itself(quoted);
    itself.start(text);
    REPRISE_CHECK(itself.next() && itself.begin() == 0 && itself.end() == text.size(), "quoted, not itself");
    return true;
  } catch (const RegexError& error) {
    REPRISE_CHECK(error.what()[0] != '\0', "a refusal without a reason");
    return false;
  }
}

// The first byte chooses the pattern.
bool fuzz_words(std::string_view input) {
  if (input.empty()) return false;
  const auto choice = static_cast<unsigned char>(input[0]);
  WordPattern pattern;
  if (choice % 8 == 7) {
    pattern = {.family = WordPattern::Family::kGpt2, .contractions = WordPattern::Case::kLower};
  } else {
    pattern.contractions = static_cast<WordPattern::Case>(choice % 3);
    pattern.marks_are_letters = choice / 8 % 2 == 1;
    pattern.max_digits = choice / 16 % 4;
  }
  REPRISE_CHECK(find_word_pattern(regex(pattern)) == pattern, "a pattern that is not known again");
  const std::string text = valid_utf8(input.substr(1));
  std::uint64_t scanned = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = next_word(pattern, text, begin, scanned);
    REPRISE_CHECK(end > begin && end <= text.size(), "a word out of place");
    REPRISE_CHECK(end == text.size() || (text[end] & 0xC0) != 0x80, "a word ends inside of a character");
    begin = end;
  }
  REPRISE_CHECK(scanned <= 8 * text.size() + 8, "characters looked at too often");
  return true;
}

}  // namespace reprise::fuzz
