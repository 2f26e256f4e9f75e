#pragma once
// Helpers of tokenizer tests: paths of reference files, random text, and a simple reference merge loop.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "models/files/json_location.h"
#include "models/text/byte_alphabet.h"
#include "models/text/tokenizer.h"
#include "models/text/tokenizer_json.h"
#include "tests/models/oracle_folder.h"
#include "tests/source_folder.h"

namespace reprise::models::test {

inline std::filesystem::path data_folder() {
  return source_folder() / "tests" / "data" / "tokenizer";
}

/// A byte-level BPE of 4,096 tokens with Qwen's pattern, NFC and special tokens.
inline TokenizerSpec qwen_like_spec() {
  return spec_of_json(JsonLocation::read(data_folder() / "tokenizer.json"));
}

class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

  std::string bytes(std::size_t length) {
    std::string out;
    for (std::size_t i = 0; i < length; ++i) out += static_cast<char>(below(256));
    return out;
  }

  char32_t code_point() {
    static const std::vector<std::pair<char32_t, char32_t>> kRanges = {
        {' ', '~'},       {' ', '~'},       {'a', 'z'},         {'\t', '\r'},       {0x80, 0x24F},
        {0x300, 0x36F},   {0x370, 0x52F},   {0x590, 0x6FF},     {0x900, 0x97F},     {0xE00, 0xE7F},
        {0x1100, 0x11FF}, {0x1780, 0x17FF}, {0x1800, 0x180F},   {0x1E00, 0x1EFF},   {0x2000, 0x206F},
        {0x2100, 0x218F}, {0x2460, 0x24FF}, {0x3000, 0x30FF},   {0x4E00, 0x9FFF},   {0xAC00, 0xD7A3},
        {0xE000, 0xE010}, {0xFF00, 0xFFEF}, {0x1F300, 0x1F6FF}, {0x20000, 0x20100}, {0xE0100, 0xE01EF}};
    const auto& [low, high] = pick(kRanges);
    return low + static_cast<char32_t>(below(high - low + 1));
  }

  /// Random valid UTF-8 with words, contractions and runs of every character class.
  std::string text(std::size_t parts) {
    static const std::vector<std::string> kParts = {
        "hello",   "World",        " the",       " of",    "'s",     "'S",     "'ll",
        "'Re",     "'\u017F",      "'",          " ",      "  ",     "\n",     "\r\n",
        "\t",      "\u00A0",       "\u0085",     "\u180E", "\u2028", "\u3000", "7",
        "123",     "1234567",      "\u00BD",     "!",      "!!!",    " (",     "e\u0301",
        "\u0301",  "\u4E2D\u6587", "\U0001F600", "\u0E01", "_",      ".",      "<|im_end|>",
        "<think>", "<|im",         "x"};
    std::string out;
    for (std::size_t i = 0; i < parts; ++i) {
      switch (below(4)) {
        case 0:
          append_utf8(out, code_point());
          break;
        case 1: {
          const std::string part = pick(kParts);
          for (std::size_t n = 1 + below(4); n > 0; --n) out += part;
          break;
        }
        default:
          out += pick(kParts);
      }
    }
    return out;
  }

  std::mt19937_64& engine() { return random_; }

 private:
  std::mt19937_64 random_;
};

/// Repeatedly merges the leftmost pair of the lowest rank, on strings.
inline std::vector<std::string> merge_naively(
    std::vector<std::string> symbols, const std::map<std::pair<std::string, std::string>, int>& ranks) {
  while (true) {
    int best_rank = -1;
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && (best_rank < 0 || found->second < best_rank)) {
        best_rank = found->second;
        best = i;
      }
    }
    if (best_rank < 0) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

inline std::map<std::pair<std::string, std::string>, int> ranks_of(const TokenizerSpec& spec) {
  std::map<std::pair<std::string, std::string>, int> ranks;
  for (std::size_t i = 0; i < spec.merges.size(); ++i) ranks[spec.merges[i]] = static_cast<int>(i);
  return ranks;
}

/// A byte-level spec with all 256 bytes and `merges` random merges of a few letters; no pre-tokenizer.
inline TokenizerSpec random_bpe_spec(RandomText& random, std::size_t merges) {
  TokenizerSpec spec;
  spec.source = "random";
  spec.byte_level = true;
  spec.decoder.alphabet = DecoderSpec::Alphabet::kByteLevel;
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    spec.tokens.push_back(to_letters({&raw, 1}));
  }
  std::vector<std::string> parts = {"a", "b", "c", "d"};
  while (spec.merges.size() < merges) {
    const std::string left = random.pick(parts), right = random.pick(parts);
    if (left.size() + right.size() > 12) continue;
    if (std::find(spec.merges.begin(), spec.merges.end(), std::pair(left, right)) != spec.merges.end())
      continue;
    spec.merges.emplace_back(left, right);
    const std::string joined = left + right;
    if (std::find(spec.tokens.begin(), spec.tokens.end(), joined) != spec.tokens.end()) continue;
    spec.tokens.push_back(joined);
    parts.push_back(joined);
  }
  std::shuffle(spec.merges.begin(), spec.merges.end(), random.engine());
  return spec;
}

}  // namespace reprise::models::test
