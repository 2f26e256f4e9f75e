#pragma once
// The compute settings that families' samples are tested with, and a loaded sample with a state store.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/models/family_table.h"
#include "tests/models/model_runs.h"
#include "tests/sanitized.h"

namespace reprise::models::test {

inline std::string test_name_of(gpu::Isa isa) {
  std::string name(name_of(isa));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

struct FamilySetting {
  FamilySample row;
  ComputeOptions options;

  std::string name() const {
    std::string name = row.sample;
    name.append(1, '_').append(test_name_of(options.isa));
    name.append(options.compute == gpu::Compute::kF32 ? "_f32" : "_auto");
    if (is_quantized(options.kv)) name.append(1, '_').append(name_of(options.kv));
    return name;
  }
  friend std::ostream& operator<<(std::ostream& out, const FamilySetting& setting) {
    return out << setting.name();
  }
};

/// Block-quantized KV types tested with a family: attention only, attention with recurrent layers, and other
/// KV layouts.
inline std::vector<gpu::KvType> block_types_of(const FamilySample& row) {
  if (row.sample == "llama" || row.sample == "qwen3_5_text") return {gpu::KvType::kInt8, gpu::KvType::kInt4};
  if (row.sample == "kimi_linear" || row.sample == "recurrent_gemma") return {gpu::KvType::kInt8};
  return {};
}

/// Every family with the best ISA, in both compute settings and for some with block-quantized keys and
/// values; under a sanitizer only the default setting.
inline std::vector<FamilySetting> best_settings() {
  std::vector<FamilySetting> all;
  const gpu::Isa isa = gpu::best_isa();
  for (const FamilySample& row : family_samples()) {
    all.push_back({row, {.compute = gpu::Compute::kAuto, .kv = gpu::KvType::kBF16, .isa = isa}});
    if (kSanitized) continue;
    all.push_back({row, {.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32, .isa = isa}});
    for (const gpu::KvType kv : block_types_of(row)) {
      all.push_back({row, {.compute = gpu::Compute::kAuto, .kv = kv, .isa = isa}});
    }
  }
  return all;
}

/// Every family with each other ISA that differs, in both settings; empty under a sanitizer.
inline std::vector<FamilySetting> other_settings() {
  std::vector<FamilySetting> all;
  for (const FamilySample& row : family_samples()) {
    for (const gpu::Isa isa : different_isas()) {
      if (isa == gpu::best_isa()) continue;
      all.push_back({row, {.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32, .isa = isa}});
      all.push_back({row, {.compute = gpu::Compute::kAuto, .kv = gpu::KvType::kBF16, .isa = isa}});
    }
  }
  return all;
}

class FamilyRuns : public ModelRuns {
 public:
  FamilyRuns(const FamilySetting& setting, unsigned threads, const gpu::StateBounds& bounds)
      : FamilyRuns(setting, std::make_shared<gpu::Threads>(threads), bounds) {}

 private:
  FamilyRuns(const FamilySetting& setting, const std::shared_ptr<gpu::Threads>& team,
             const gpu::StateBounds& bounds)
      : ModelRuns(team, load_on_cpu(sample_checkpoint(setting.row), setting.options, *team), bounds) {}
};

}  // namespace reprise::models::test
