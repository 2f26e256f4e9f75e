#include "models/arch/selective_scan_keys.h"

#include <cmath>
#include <string>

#include "models/arch/config_source.h"
#include "models/arch/model_keys.h"

namespace reprise::models {
namespace {

constexpr std::int64_t kMaxScanState = 4096;  // values per channel

std::size_t read_inner(const ConfigSource& source, const SelectiveScanKeys& keys) {
  const Key said{keys.inner, "ssm.inner_size"};
  if (source.gguf() != nullptr || source.has(said)) return source.count(said, kMaxSize);
  const Key expand{keys.expand, ""};
  const double inner = source.number_or(expand, 2) * static_cast<double>(keys.hidden);
  if (!(inner >= 1 && inner <= static_cast<double>(kMaxSize)) || inner != std::floor(inner)) {
    source.fail(expand, "times the hidden size is no number of channels");
  }
  return static_cast<std::size_t>(inner);
}

std::size_t read_step_rank(const ConfigSource& source, const SelectiveScanKeys& keys) {
  const Key rank{keys.step_rank, "ssm.time_step_rank"};
  const std::size_t usual = (keys.hidden + 15) / 16;
  if (const HfSource* hf = source.hf()) {
    const auto said = hf->text().find(keys.step_rank);
    if (said && said->is(JsonLocation::Kind::kString)) {
      if (said->text() == "auto") return usual;
      said->fail("expected a number or 'auto', found '" + said->text() + "'");
    }
    return source.count_or(rank, kMaxSize, usual);
  }
  return source.count(rank, kMaxSize);
}

}  // namespace

SelectiveScanSpec read_selective_scan(const ConfigSource& source, const SelectiveScanKeys& keys) {
  require_silu(source);
  const bool hf = source.hf() != nullptr;
  const auto size = [&](const Key& key, std::int64_t most, std::size_t fallback) {
    return hf ? source.count_or(key, most, fallback) : source.count(key, most);
  };
  const std::string block = "blk." + std::to_string(keys.layer) + ".";
  SelectiveScanSpec out;
  out.hidden = keys.hidden;
  out.inner = read_inner(source, keys);
  out.state_size = size({keys.state_size, "ssm.state_size"}, kMaxScanState, 16);
  out.step_rank = read_step_rank(source, keys);
  out.conv_kernel = size({keys.conv_kernel, "ssm.conv_kernel"}, kMaxConvKernel, 4);
  out.conv_bias =
      hf ? source.boolean_or({keys.conv_bias, ""}, true) : source.has_bias("", block + "ssm_conv1d.bias");
  out.in_bias = source.has_bias(keys.bias, block + "ssm_in.bias");
  out.out_bias = source.has_bias(keys.bias, block + "ssm_out.bias");
  return out;
}

}  // namespace reprise::models
