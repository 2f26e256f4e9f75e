#include "models/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace reprise::models {
namespace {

int combining_class(std::int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Canonical ordering: sorts each run of marks by combining class, stably.
void order_marks(std::vector<std::int32_t>& text) {
  const auto is_mark = [](std::int32_t c) { return c >= 0x300 && combining_class(c) != 0; };
  auto at = text.begin();
  while (true) {
    const auto begin = std::find_if(at, text.end(), is_mark);
    if (begin == text.end()) return;
    const auto end = std::find_if_not(begin, text.end(), is_mark);
    if (end - begin > 1) {
      std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    }
    at = end;
  }
}

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::kNfc || form == NormalForm::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

std::vector<std::int32_t> decompose(std::string_view text, utf8proc_option_t options) {
  constexpr std::size_t kMaxLength = 32;  // the longest decomposition has 18 code points
  std::vector<std::int32_t> out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char read = read_valid_utf8(text, at);
    at += read.length;
    const auto code_point = static_cast<std::int32_t>(read.code_point);
    if (code_point < 0x80) {
      out.push_back(code_point);
      continue;
    }
    std::int32_t parts[kMaxLength];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(code_point, parts, kMaxLength, options, &boundary);
    REPRISE_CHECK(count >= 0 && static_cast<std::size_t>(count) <= kMaxLength,
                  "utf8proc failed to decompose a code point");
    out.insert(out.end(), parts, parts + count);
  }
  return out;
}

}  // namespace

std::uint8_t wide_char_class(char32_t code_point) {
  if (code_point == 0x85) return kSpace;  // a control character, yet white space
  switch (utf8proc_category(static_cast<std::int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kSpace;
    default:
      return kOther;
  }
}

bool is_word_character(char32_t code_point) {
  if (code_point == '_') return true;
  if ((char_class(code_point) & (kLetter | kMark)) != 0) return true;
  const auto category = utf8proc_category(static_cast<std::int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC;
}

bool is_punctuation(char32_t code_point) {
  if (code_point < 0x80) return code_point > ' ' && code_point != 0x7F && kAsciiClass[code_point] == kOther;
  const auto category = utf8proc_category(static_cast<std::int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_control(char32_t code_point) {
  const auto category = utf8proc_category(static_cast<std::int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO;
}

char32_t to_lower(char32_t code_point) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<std::int32_t>(code_point)));
}

bool is_plainly_normal(std::string_view text, NormalForm form) {
  // Nothing below U+0300 composes with the character before it, but only ASCII never decomposes. A lead byte
  // below 0xCC starts a code point below U+0300.
  const unsigned char limit = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [limit](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < limit;
  });
}

std::string normalize(std::string_view text, NormalForm form) {
  const utf8proc_option_t options = options_of(form);
  std::vector<std::int32_t> code_points = decompose(text, options);
  order_marks(code_points);
  const auto count = utf8proc_normalize_utf32(code_points.data(),
                                              static_cast<utf8proc_ssize_t>(code_points.size()), options);
  REPRISE_CHECK(count >= 0, "utf8proc failed to compose a decomposed text");
  code_points.resize(static_cast<std::size_t>(count));
  std::string out;
  out.reserve(text.size());
  for (const std::int32_t code_point : code_points) append_utf8(out, static_cast<char32_t>(code_point));
  return out;
}

}  // namespace reprise::models
