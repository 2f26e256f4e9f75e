#include "models/arch/mamba2_keys.h"

#include <cmath>
#include <limits>
#include <string>

#include "models/arch/config_source.h"

namespace reprise::models {
namespace {

constexpr std::int64_t kMaxSsmState = 65536;

// A number in config.json, or {"__float__": "Infinity"}, as some versions of transformers write it.
double number_or_infinity(const JsonLocation& place) {
  if (!place.is(JsonLocation::Kind::kObject)) return place.number();
  const JsonLocation word = place.at("__float__");
  if (word.text() == "Infinity") return std::numeric_limits<double>::infinity();
  word.fail("'" + word.text() + "' is not a limit of a time step");
}

void read_dt_limit(const HfSource& hf, std::string_view key, Mamba2Spec& out) {
  const std::optional<JsonLocation> limit = hf.text().find(key);
  if (!limit) return;
  if (limit->size() != 2) limit->fail("expected two numbers");
  out.dt_min = static_cast<float>(number_or_infinity(limit->at(0)));
  out.dt_max = static_cast<float>(number_or_infinity(limit->at(1)));
  if (!(out.dt_min >= 0 && std::isfinite(out.dt_min) && out.dt_max >= out.dt_min)) {
    limit->fail("must be two numbers from 0 on, the smaller one first");
  }
}

void require_silu_in(const ConfigSource& source, std::string_view key) {
  if (source.hf() == nullptr) return;
  const auto act = source.hf()->text().find(key);
  if (act && act->text() != "silu" && act->text() != "swish") {
    act->fail("the activation '" + act->text() + "' is not known; known is silu");
  }
}

}  // namespace

Mamba2Spec read_mamba2(const ConfigSource& source, std::size_t hidden, const Mamba2Keys& keys) {
  const Key heads{keys.heads, "ssm.time_step_rank"};
  const Key head_dim{keys.head_dim, ""};
  const Key inner{"", "ssm.inner_size"};
  const Key groups{keys.groups, "ssm.group_count"};
  const Key state_size{keys.state_size, "ssm.state_size"};
  const Key conv_kernel{keys.conv_kernel, "ssm.conv_kernel"};
  const std::string block = "blk." + std::to_string(keys.layer) + ".";
  require_silu_in(source, keys.activation);

  Mamba2Spec out;
  out.hidden = hidden;
  const bool hf = source.hf() != nullptr;
  const auto size = [&](const Key& key, std::int64_t most, std::size_t fallback) {
    return hf ? source.count_or(key, most, fallback) : source.count(key, most);
  };
  out.heads = size(heads, kMaxHeads, keys.default_heads);
  out.groups = size(groups, kMaxHeads, keys.default_groups);
  out.state_size = size(state_size, kMaxSsmState, keys.default_state_size);
  out.conv_kernel = size(conv_kernel, kMaxConvKernel, 4);
  if (hf) {
    out.head_dim = source.count_or(head_dim, kMaxHeadDim, keys.default_head_dim);
  } else {
    const std::size_t all = source.count(inner, kMaxSize);
    if (all % out.heads != 0) {
      source.fail(inner, std::to_string(all) + " does not suit " + std::to_string(out.heads) + " heads");
    }
    out.head_dim = all / out.heads;
  }
  if (out.inner_size() > static_cast<std::size_t>(kMaxSize)) {
    source.fail(heads, std::to_string(out.heads) + " heads of " + std::to_string(out.head_dim) +
                           " are more than " + std::to_string(kMaxSize));
  }
  if (out.heads % out.groups != 0) {
    source.fail(groups, std::to_string(out.groups) + " does not divide " + source.name(heads) +
                            ", which is " + std::to_string(out.heads));
  }
  out.conv_bias =
      hf ? source.boolean_or({keys.conv_bias, ""}, true) : source.has_bias("", block + "ssm_conv1d.bias");
  out.in_bias = source.has_bias(keys.in_bias, block + "ssm_in.bias");
  out.out_bias = source.has_bias(keys.out_bias, block + "ssm_out.bias");
  if (hf) read_dt_limit(*source.hf(), keys.dt_limit, out);
  return out;
}

}  // namespace reprise::models
