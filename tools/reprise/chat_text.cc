#include "tools/reprise/chat_text.h"

#include <langinfo.h>
#include <wchar.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/utf8.h"

namespace reprise::tools {

namespace {

constexpr std::size_t kTab = 8;

std::size_t width_of(char32_t character) {
  if (character >= 0x20 && character < 0x7F) return 1;
  return static_cast<std::size_t>(std::max(::wcwidth(static_cast<wchar_t>(character)), 0));
}

/// A part of the status line; parts of lowest worth are dropped first.
struct StatusPart {
  std::string text;
  int worth;
};

std::string rounded(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::vector<StatusPart> status_parts(const ChatOutcome& outcome) {
  if (outcome.prompt_tokens == 0) {  // the server did not report it, or not yet
    return {{outcome.stopped ? "stopped" : "the server reported no usage", 9}};
  }
  std::vector<StatusPart> parts;
  parts.push_back({std::to_string(outcome.tokens) + " tokens", 9});
  if (outcome.tokens_per_second)
    parts.push_back({", " + rounded(*outcome.tokens_per_second, "%.1f a second"), 1});
  if (outcome.first_token_ms)
    parts.push_back({", first after " + rounded(*outcome.first_token_ms, "%.0f ms"), 2});
  if (outcome.stopped) parts.push_back({", stopped", 7});
  if (outcome.at_limit) parts.push_back({", cut at --max-tokens or the context's end", 6});
  parts.push_back({"; prompt of " + std::to_string(outcome.prompt_tokens) + ", " +
                       std::to_string(outcome.restored) + " from the cache",
                   8});
  if (!outcome.restored_from.empty()) parts.push_back({" (" + outcome.restored_from + ")", 3});
  parts.push_back({", " + std::to_string(outcome.prefilled) + " computed", 5});
  if (!outcome.miss_reason.empty() && outcome.miss_reason != "none") {
    std::string why = outcome.miss_reason;
    std::replace(why.begin(), why.end(), '_', ' ');
    if (outcome.miss_position > 0) why += " after " + std::to_string(outcome.miss_position);
    parts.push_back({" (" + why + ")", 4});
  }
  return parts;
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
  if (column_ > columns_) column_ %= columns_;  // the terminal has wrapped the line
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
      if (!in_code_ && column_ + width > columns_) continue;  // the next word starts a new line instead
      out += bytes;
      column_ += width;
      continue;
    }
    const std::size_t width = width_of(character.code_point);
    if (width == 2) place(out);  // wide characters may be broken before and after each
    word_ += bytes;
    width_ += width;
    if (width == 2) place(out);
    if (width_ >= columns_) {  // longer than a line: left to the terminal to wrap
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

std::string status_line(const ChatOutcome& outcome, std::size_t columns) {
  const std::vector<StatusPart> parts = status_parts(outcome);
  std::string line;
  for (int min_worth = 0; min_worth < 10; ++min_worth) {
    line = "[";
    for (const StatusPart& part : parts) {
      if (part.worth >= min_worth) line += part.text;
    }
    line += "]";
    if (columns == 0 || line.size() < columns) break;
  }
  return line;
}

}  // namespace reprise::tools
