#pragma once
// What the terminal chat shows: streamed text, broken between words at the edge of a terminal, and the line under a reply: what
// was restored and what was not, and how fast it came.
//
// Threading: one owner.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::tools {

/// Has the C library know the width of characters beyond ASCII, whatever the locale's encoding.
void use_utf8_locale();

/// A word is held back until its end has come, so that it is never broken unless it is longer than a line. Lines of code
/// between ``` are left as they are: a break would be copied with them.
class TextWrap {
 public:
  /// 0 columns: nothing is held back or broken.
  explicit TextWrap(std::size_t columns) : columns_(columns) {}

  /// What is to be printed now. The text is whole characters of UTF-8.
  std::string push(std::string_view text);
  /// The word that was held back.
  std::string flush();

 private:
  void place(std::string& out);
  void note_fence(char32_t character);

  const std::size_t columns_;
  std::size_t column_ = 0;   // where the next character is printed
  std::string word_;         // held back
  std::size_t width_ = 0;    // of it, in columns
  std::size_t ticks_ = 0;    // ` at the beginning of this line
  bool line_begins_ = true;  // it has nothing but them
  bool in_code_ = false;
  bool continues_ = false;  // `word_` is the rest of one whose beginning was printed
};

/// What became of it. What the model said went to who shows it.
struct ChatOutcome {
  std::optional<std::string> error{};  // nothing else counts
  bool stopped = false;                // by Ctrl-C
  bool at_limit = false;               // of tokens
  std::uint32_t tokens = 0;            // of the reply
  std::uint32_t prompt_tokens = 0;
  std::uint32_t restored = 0;
  std::uint32_t prefilled = 0;
  std::string restored_from{};  // "history"; empty: nothing was restored
  std::string miss_reason{};    // empty: the partner does not tell
  std::uint32_t miss_position = 0;
  std::optional<double> first_token_ms{};
  std::optional<double> tokens_per_second{};
};

/// "[12 tokens, 45.1 a second, first after 8 ms; prompt of 129, 120 from the cache (history), 9 computed (no checkpoint
/// after 120)]". In fewer columns than it takes (0: any) what counts least is left out, so that it never wraps.
std::string status_line(const ChatOutcome& outcome, std::size_t columns);

}  // namespace reprise::tools
