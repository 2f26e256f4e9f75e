// `reprise bench --engine`: how fast a model computes on this machine, without server or actors.
#pragma once

#include <cstddef>
#include <string>

namespace reprise::tools {

struct BenchEngineOptions {
  bool engine = false;            // asked for; there is no other benchmark yet
  std::string model;              // a Hugging Face folder or a GGUF file
  std::string compute = "auto";   // f32, auto
  std::string kv_dtype = "auto";  // f32, bf16, auto
  std::string isa = "auto";       // a name of gpu::Isa, auto
  unsigned threads = 0;           // 0: one for each core
  std::size_t prompt = 512;       // tokens of a prefill
  std::size_t decode = 64;        // tokens that are decoded after it
  unsigned repeat = 3;            // of every measurement; the median is shown
  bool json = false;
};

// Measures prefill by slice size, decode alone and in batches, snapshot and restore, and prints a table, or
// one JSON object, on stdout. Returns the exit status of the program: 0, or 1 with the reason on stderr,
// which names the flag where a value is wrong.
//
// Runs on the calling thread and a team of its own.
int bench_engine(const BenchEngineOptions& options);

}  // namespace reprise::tools
