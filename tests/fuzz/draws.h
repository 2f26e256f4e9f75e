#pragma once
// Draws reads the decisions of a generator from the bytes of a fuzzer's input, so that the fuzzer changes a
// decision by changing a byte. After the last byte, draws come from a random generator seeded with the input,
// so that few bytes make a large text. To draw the same with every compiler, each draw needs its own
// statement: the evaluation order of arguments and operands is unspecified.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace reprise::fuzz {

class Draws {
 public:
  /// The bytes must outlive it.
  explicit Draws(std::string_view input) : bytes_(input), state_(0xcbf29ce484222325ULL) {
    for (const char byte : input) state_ = (state_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  /// Draws without an input.
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  /// Returns a number from 0 to n - 1; 0 for n = 0. Takes one byte of the input for n up to 256, two up to
  /// 65,536, else four.
  std::uint64_t below(std::uint64_t n) {
    if (n <= 1) return 0;
    const std::size_t width = n <= 256 ? 1 : n <= 65'536 ? 2 : 4;
    if (used_ + width > bytes_.size()) {
      used_ = bytes_.size();
      return next() % n;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes_[used_]);
      ++used_;
    }
    return value % n;
  }

  bool one_in(std::uint64_t n) { return below(n) == 0; }

  const char* pick(std::initializer_list<const char*> choices) {
    const std::uint64_t index = below(choices.size());
    return *(choices.begin() + index);
  }

 private:
  std::uint64_t next() {  // SplitMix64
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }

  std::string_view bytes_{};
  std::size_t used_ = 0;
  std::uint64_t state_;
};

}  // namespace reprise::fuzz
