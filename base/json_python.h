#pragma once
// What Python's json module writes and the standard forbids, made readable for a parser of the standard: NaN,
// Infinity, -Infinity, and integers past 64 bits.
//
// Threading: a pure function.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// A word such as Infinity becomes a string. It is known by its number among the strings of the text, keys
/// included, so no string that really is there can be taken for one. An integer that may not fit 64 bits gets
/// an exponent, which makes it a double.
struct PythonJson {
  struct Word {
    std::size_t string_number;
    double value;
  };
  std::string text;
  std::vector<Word> words;  // in order
};

/// Time and memory are linear in the text, which need not be JSON at all.
PythonJson rewrite_python_json(std::string_view text);

}  // namespace reprise
