#include "tools/reprise/text_wrap.h"

#include <langinfo.h>
#include <wchar.h>

#include <algorithm>
#include <clocale>
#include <cstring>

#include "base/utf8.h"

namespace reprise::tools {
namespace {

constexpr std::size_t kTab = 8;

std::size_t width_of(char32_t character) {
  if (character >= 0x20 && character < 0x7F) return 1;
  return static_cast<std::size_t>(std::max(::wcwidth(static_cast<wchar_t>(character)), 0));
}

}  // namespace

void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

void TextWrap::note_fence(char32_t character) {
  if (!line_begins_) return;
  line_begins_ = character == '`';
  if (line_begins_ && ++ticks_ == 3) in_code_ = !in_code_;
}

void TextWrap::place(std::string& out) {
  if (!in_code_ && !continues_ && column_ > 0 && column_ + width_ > columns_) {
    out += '\n';
    column_ = 0;
  }
  out += word_;
  column_ += width_;
  if (column_ > columns_) column_ %= columns_;  // the terminal has broken it
  continues_ = false;
  word_.clear();
  width_ = 0;
}

std::string TextWrap::push(std::string_view text) {
  if (columns_ == 0) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char character = read_utf8(text, at);
    const std::string_view bytes = text.substr(at, character.length);
    at += character.length;
    if (character.code_point == '\n') {
      place(out);
      out += '\n';
      column_ = ticks_ = 0;
      line_begins_ = true;
      continue;
    }
    note_fence(character.code_point);
    if (character.code_point == ' ' || character.code_point == '\t') {
      place(out);
      const std::size_t width = character.code_point == ' ' ? 1 : kTab - column_ % kTab;
      if (!in_code_ && column_ + width > columns_) continue;  // the next word begins a line
      out += bytes;
      column_ += width;
      continue;
    }
    const std::size_t width = width_of(character.code_point);
    if (width == 2) place(out);  // ideographs: a line may end before any of them
    word_ += bytes;
    width_ += width;
    if (width == 2) place(out);
    if (width_ >= columns_) {  // longer than a line: the terminal breaks it
      place(out);
      continues_ = true;
    }
  }
  return out;
}

std::string TextWrap::flush() {
  std::string out;
  if (columns_ > 0) place(out);
  return out;
}

}  // namespace reprise::tools
