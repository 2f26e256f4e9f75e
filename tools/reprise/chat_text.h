#pragma once
// Terminal output of `reprise chat`: word wrapping of streamed text, and the status line after a reply.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::tools {

/// Sets a UTF-8 locale, so that the C library knows the widths of non-ASCII characters.
void use_utf8_locale();

/// Wraps streamed text between words. Holds back the current word until it is complete, so only words longer
/// than a line are broken. Lines of code between ``` are not wrapped, because the break would be copied with
/// them.
class TextWrap {
 public:
  /// `columns` 0: no wrapping.
  explicit TextWrap(std::size_t columns) : columns_(columns) {}

  /// Returns the text to print now. `text` must be whole UTF-8 characters.
  std::string push(std::string_view text);
  std::string flush();

 private:
  void place(std::string& out);
  void note_fence(char32_t character);

  const std::size_t columns_;
  std::size_t column_ = 0;   // column of the next character
  std::string word_;         // word held back
  std::size_t width_ = 0;    // its width in columns
  std::size_t ticks_ = 0;    // backticks at the start of this line
  bool line_begins_ = true;  // the line has only backticks so far
  bool in_code_ = false;
  bool continues_ = false;  // the beginning of `word_` is already printed
};

/// The outcome of a reply. Its text goes to a callback.
struct ChatOutcome {
  std::optional<std::string> error{};  // if set, all other fields are meaningless
  bool stopped = false;                // by Ctrl-C
  bool at_limit = false;               // the token limit was reached
  std::uint32_t tokens = 0;            // tokens of the reply
  std::uint32_t prompt_tokens = 0;
  std::uint32_t restored = 0;
  std::uint32_t prefilled = 0;
  std::string restored_from{};  // "history"; empty: nothing was restored
  std::string miss_reason{};    // empty: not reported
  std::uint32_t miss_position = 0;
  std::optional<double> first_token_ms{};
  std::optional<double> tokens_per_second{};
};

/// Returns "[12 tokens, 45.1 a second, first after 8 ms; prompt of 129, 120 from the cache (history), 9
/// computed (no checkpoint after 120)]". Drops the least important parts to fit `columns` (0: no limit).
std::string status_line(const ChatOutcome& outcome, std::size_t columns);

}  // namespace reprise::tools
