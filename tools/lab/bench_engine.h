// `reprise bench --engine`: how fast a model computes on this machine, without server or actors.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/lab/bench_report.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct BenchEngineOptions {
  EngineFlags engine;
  std::size_t prompt = 512;            // tokens of a prefill
  std::size_t decode = 64;             // tokens that are decoded after it
  std::vector<std::size_t> slices{};   // of a prefill; none: some up to the whole prompt
  std::vector<std::size_t> batches{};  // sequences that decode together; none: some that suit the device
  unsigned repeat = 3;                 // of every measurement; the median is shown
  bool json = false;
};

// Measures prefill by slice size, decode alone and in batches, snapshot and restore, prints a table, or
// one JSON object, on stdout, and adds to the report. Returns the exit status of the program. Throws UsageError, models::LoadError.
//
// Runs on the calling thread and a team of its own.
int bench_engine(const BenchEngineOptions& options, BenchReport& report);

}  // namespace reprise::tools
