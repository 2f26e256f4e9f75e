#pragma once
// Reads recorded requests: JSON lines with `timestamp` (milliseconds), `input_length` and `hash_ids`, one id
// per block of the prompt, of which the last may be partial. Equal ids mean equal blocks after equal
// prefixes. Other members are ignored.
//
// Bounds: 16 MB per line, 2^31 tokens per prompt.

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

  /// Generates a prompt that shares prefixes with others as the blocks do: each block is one repeated token.
  void expand(std::uint32_t block_tokens, TokenList& prompt) const;
};

class TraceFile {
 public:
  /// Throws models::LoadError naming file and line, as does next().
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
