#pragma once
// `reprise bench` on the command line: what it measures, and with which settings.
//
// Threading: the main thread.

#include <CLI/CLI.hpp>
#include <cstdint>

#include "tools/lab/bench_cache.h"
#include "tools/lab/bench_concurrency.h"
#include "tools/lab/bench_engine.h"
#include "tools/lab/bench_lookup.h"
#include "tools/lab/workload.h"

namespace reprise::tools {

class BenchCommand {
 public:
  explicit BenchCommand(CLI::App& app);
  BenchCommand(const BenchCommand&) = delete;
  BenchCommand& operator=(const BenchCommand&) = delete;

  bool parsed() const { return command_->parsed(); }
  /// Throws UsageError.
  int run();

 private:
  CLI::App* command_;
  CLI::Option* memory_ = nullptr;
  bool engine_alone_ = false;
  bool cache_ = false;
  EngineFlags flags_;
  std::uint32_t prompt_ = 0;  // 0: as the benchmark likes it
  unsigned repeat_ = 3;
  bool json_ = false;
  std::string report_;  // an HTML page to write; empty: none
  BenchEngineOptions engine_options_;
  BenchCacheOptions cache_options_;
  WorkloadOptions workload_options_;
  ConcurrencyOptions concurrency_options_;
  bool lookup_ = false;
  LookupOptions lookup_options_;
};

}  // namespace reprise::tools
