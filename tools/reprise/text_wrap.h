#pragma once
// Breaks streamed text between words at the edge of a terminal.
//
// Threading: one owner.

#include <cstddef>
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

}  // namespace reprise::tools
