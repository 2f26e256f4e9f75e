#pragma once
// Recorded requests: JSON lines with `timestamp` (milliseconds), `input_length` and `hash_ids`, one id for
// each block of the prompt, the last of which may be partial. Equal ids mean equal blocks behind equal
// prefixes. Other members are ignored.
//
// Bounds: a line of 16 MB, a prompt of 2^31 tokens.
// Threading: one owner.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace reprise::tools {

struct TraceRequest {
  std::chrono::nanoseconds time{};
  std::uint32_t input_tokens = 0;
  std::vector<TokenId> blocks;

  /// A prompt that shares with others what the blocks share: each block is one token, repeated.
  void expand(std::uint32_t block_tokens, TokenList& prompt) const;
};

class TraceFile {
 public:
  /// Throws models::LoadError, as does next(): it names file and line.
  TraceFile(const std::filesystem::path& path, std::uint32_t block_tokens);
  std::optional<TraceRequest> next();

 private:
  std::string name_;
  std::uint32_t block_tokens_;
  std::ifstream in_;
  std::size_t line_ = 0;
  std::chrono::nanoseconds last_{};
};

}  // namespace reprise::tools
