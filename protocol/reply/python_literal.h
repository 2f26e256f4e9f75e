#pragma once
// PythonLiteral: turns a Python literal, character by character, into JSON: strings in either quotes,
// numbers, True, False and None, lists, tuples and dictionaries.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::protocol {

class PythonLiteral {
 public:
  enum class Step : std::uint8_t {
    kInside,
    kEnded,  // before this character, which is a comma or a closing parenthesis
    kBad,    // this character can be no part of it
  };

  /// Appends to `json` what is known now.
  Step put(char c, std::string& json);

  /// What is read and not yet in the JSON, as it stands.
  const std::string& unfinished() const { return word_; }

 private:
  Step in_string(char c, std::string& json);
  void end_word(std::string& json);
  void before_item(std::string& json);

  std::size_t depth_ = 0;
  bool whole_ = false;  // at depth 0: nothing more may come
  bool comma_ = false;  // to be written if an item follows
  char quote_ = 0;      // inside a string
  std::string escape_{};
  std::string word_{};
};

}  // namespace reprise::protocol
