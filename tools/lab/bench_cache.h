#pragma once
// `reprise bench --cache`: what the snapshot cache is worth on this machine, measured through the whole
// engine in this process, without HTTP.
//
// Every answer with the cache is compared with the answer of a cold run of the same prompt: same tokens, same
// logprobs, or the exit status is not 0. Repetitions take cold and warm in turn, in namespaces of their own,
// so that none sees what another left behind.
//
// Threading: the calling thread, an actor system and device threads of its own.

#include <cstdint>
#include <string>
#include <vector>

#include "tools/lab/bench_report.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct BenchCacheOptions {
  EngineFlags engine;
  std::vector<std::uint32_t> lengths = {256, 512, 1024, 2048, 4096, 8192, 16'384};
  std::uint32_t prompt = 1024;      // tokens of a scenario's prompt
  std::uint32_t reply = 4;          // tokens of every answer
  std::uint32_t requests = 100;     // with one instruction
  std::uint32_t at_once = 8;        // of these
  unsigned repeat = 3;              // of every measurement; medians are shown
  double budget_seconds = 600;      // nothing new is begun afterwards
  std::vector<std::string> only{};  // parts by name; empty: all
  bool json = false;
};

/// The parts, in the order in which they are measured.
const std::vector<std::string>& cache_bench_parts();

/// Prints a table, or one JSON object, on stdout, and adds to the report; returns the exit status: 1 when a warm answer was not the
/// cold one. Throws UsageError, models::LoadError, std::runtime_error for a request that failed.
int bench_cache(const BenchCacheOptions& options, BenchReport& report);

}  // namespace reprise::tools
