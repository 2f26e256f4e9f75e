#pragma once
// `reprise bench --lookup`: how a prompt's known beginning is found, by the radix tree that the prefix cache has, and by a
// hash of blocks as others have it. Both are told the same prompts and asked for the same ones, in turn.
//
// A hash of blocks knows whole blocks alone, trusts 64 bits of hash, and keeps one record for every block; a tree compares
// every token and keeps one record for every place where prompts part. No model is needed.
//
// Threading: the calling thread.

#include <cstdint>
#include <vector>

namespace reprise::tools {

struct LookupOptions {
  std::vector<std::uint32_t> lengths = {256, 1024, 8192, 32'768};  // tokens of a prompt
  std::uint32_t conversations = 200;
  unsigned repeat = 5;
};

/// Prints a table; returns the exit status.
int bench_lookup(const LookupOptions& options);

}  // namespace reprise::tools
