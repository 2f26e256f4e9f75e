#pragma once
// Mutates inputs at random, to some that a parser accepts and some that it must refuse.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::fuzz {

class Mutator {
 public:
  /// `words` are tokens that the parser knows. A seed gives the same mutations with every compiler.
  Mutator(std::uint64_t seed, std::vector<std::string> words) : random_(seed), words_(std::move(words)) {}

  std::size_t below(std::size_t n) { return random_() % std::max<std::size_t>(n, 1); }

  /// Returns the text with a few changes; a series of words if it is empty.
  std::string operator()(std::string text) {
    if (text.empty()) {
      for (std::size_t words = 1 + below(12); words > 0; --words) text += word();
      return text;
    }
    const std::size_t max = 1 + below(4);  // usually fewer
    for (std::size_t changes = 1 + below(max); changes > 0; --changes) change(text);
    return text;
  }

 private:
  /// Returns a word of the parser or a random binary number.
  std::string word() {
    static constexpr std::uint64_t kNumbers[] = {0,
                                                 1,
                                                 2,
                                                 8,
                                                 31,
                                                 0x7f,
                                                 0xff,
                                                 0x7fffffff,
                                                 0x80000000,
                                                 0xffffffff,
                                                 1ULL << 32,
                                                 1ULL << 62,
                                                 (1ULL << 63) - 1,
                                                 1ULL << 63,
                                                 ~0ULL};
    if (!words_.empty() && below(8) != 0) return words_[below(words_.size())];
    const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
    std::string bytes(below(2) == 0 ? 4 : 8, '\0');
    std::memcpy(bytes.data(), &number, bytes.size());
    return bytes;
  }

  void change(std::string& text) {
    const std::size_t size = text.size();
    const std::size_t head = std::min<std::size_t>(size, 1024);  // where file headers are
    const std::size_t at = below(below(2) == 0 ? head : size);
    switch (below(9)) {
      case 0:
        if (at < size) text[at] = static_cast<char>(below(256));
        break;
      case 1:
        if (at < size) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 2:
        text.erase(at, 1 + below(16));
        break;
      case 3: {  // a copy of a part
        const std::string part = text.substr(below(size), 1 + below(64));
        text.insert(at, part);
        break;
      }
      case 4:
        text.insert(at, word());
        break;
      case 5: {
        const std::string over = word();
        text.replace(at, over.size(), over);
        break;
      }
      case 6:
      case 7: {  // replaces a value, as delimited by brackets, commas and colons
        const std::size_t begin = text.find_first_of(":,[{ ", at);
        if (begin == std::string::npos) break;
        const std::size_t end = std::min(text.find_first_of(",]}\n ", begin + 1), size);
        text.replace(begin + 1, end - begin - 1, word());
        break;
      }
      default:
        if (below(4) == 0) text.resize(at);
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

}  // namespace reprise::fuzz
